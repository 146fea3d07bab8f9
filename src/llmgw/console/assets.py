"""Static files: read once when the console is built, addressed by digest, so that browsers may keep them."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llmgw.schema.value import Value

_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(Value, frozen=True, kw_only=True):
    """One file."""

    body: bytes
    media_type: str
    url: str
    """With the digest of its content: another content is another address."""


Assets = Mapping[str, Asset]


def load() -> Assets:
    """Read the files that ship with the console, by name."""
    found: dict[str, Asset] = {}
    for path in sorted(files("llmgw.console").joinpath("static").iterdir(), key=lambda path: path.name):
        suffix = path.name[path.name.rfind(".") :]
        if suffix not in _TYPES:
            continue
        body = path.read_bytes()
        digest = hashlib.sha256(body).hexdigest()[:16]
        found[path.name] = Asset(body=body, media_type=_TYPES[suffix], url=f"/static/{path.name}?v={digest}")
    return found


def routes(assets: Assets) -> tuple[Route, ...]:
    """Serve them, without login: the login page needs them."""

    async def static(request: Request) -> Response:
        asset = assets.get(request.path_params["name"])
        if asset is None:
            raise HTTPException(404)
        addressed = request.url.query == asset.url.partition("?")[2]
        age = "public, max-age=31536000, immutable" if addressed else "no-cache"
        return Response(asset.body, headers={"cache-control": age}, media_type=asset.media_type)

    return (Route("/static/{name}", static, methods=["GET"]),)
