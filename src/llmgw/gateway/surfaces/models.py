"""`GET /v1/models` and `GET /v1/models/NAME`; names may hold slashes, as they are or percent-encoded."""

from urllib.parse import unquote

import msgspec

from llmgw.gateway.errors import model_not_found
from llmgw.gateway.routes_view import LiveView

PATH = "/v1/models"
LABEL = "models"

_ENCODE = msgspec.json.Encoder().encode


def owns(path: str) -> bool:
    """True for the list and for one model."""
    return path == PATH or path.startswith(PATH + "/")


def answer(view: LiveView, path: str) -> bytes:
    """Give the body. Raises `ApiError` 404."""
    name = unquote(path[len(PATH) + 1 :])
    if not name:
        return view.model_list()
    model = view.model(name)
    if model is None:
        raise model_not_found(name)
    return _ENCODE(model)
