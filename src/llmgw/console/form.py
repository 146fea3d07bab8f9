"""Forms that pages of this console send: read within bounds, and only from this console."""

from urllib.parse import parse_qs

from starlette.requests import Request

from llmgw.schema.errors import Forbidden, TooLarge

_MAX_FORM = 16 * 1024


def refuse_foreign(request: Request) -> None:
    """Raise `Forbidden` unless the request comes from a page of this console.

    Every browser states the origin with a POST. One that does not is refused: deny by default.
    """
    origin = request.headers.get("origin", "")
    scheme, separator, host = origin.partition("://")
    if separator and scheme in {"http", "https"} and host == request.headers.get("host"):
        return
    raise Forbidden(
        "this request does not come from a page of this console", hint="open the console in a browser and try again"
    )


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields; of one that is given twice, the last. Raises `TooLarge`."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM:
            raise TooLarge(f"the form is larger than {_MAX_FORM} bytes")
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
