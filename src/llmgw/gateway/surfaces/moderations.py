"""`POST /v1/moderations`: what is asked, as texts for a judge. A list of texts is several inputs, of parts one."""

from typing import Any, NamedTuple

import msgspec

from llmgw.core.guard.openai_turns import chat_conversation
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.decode import decoded
from llmgw.gateway.errors import ApiError
from llmgw.schema.openai.moderation import ModerationRequest

PATH = "/v1/moderations"
LABEL = "moderations"
MAX_INPUTS = 256

_DECODE = msgspec.json.Decoder(ModerationRequest).decode


class ModerationAsk(NamedTuple):
    """A request, read. `model` is a judge's name, `None` for whichever comes first."""

    model: str | None
    inputs: tuple[Conversation, ...]


def read(raw: bytes) -> ModerationAsk:
    """Read a request. Raises `ApiError` 400."""
    request = decoded(raw, _DECODE)
    inputs = _inputs(request.input)
    if not 0 < len(inputs) <= MAX_INPUTS:
        raise ApiError(400, f"'input' must hold 1 to {MAX_INPUTS} texts", code="invalid_value", param="input")
    return ModerationAsk(request.model, tuple(_conversation(one) for one in inputs))


def _inputs(given: str | list[Any]) -> list[Any]:
    if isinstance(given, str):
        return [given]
    return given if all(isinstance(one, str) for one in given) else [given]


def _conversation(one: Any) -> Conversation:
    found = chat_conversation({"messages": [{"role": "user", "content": one}]})
    if found.unreadable:
        raise ApiError(
            400,
            f"'input' holds what no judge here can read: {found.unreadable[0].why}",
            code="unscannable_content",
            param="input",
        )
    return found
