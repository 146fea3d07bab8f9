"""`POST /v1/messages/count_tokens`: the tokens of a prompt, counted by the engine that would answer it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from llmgw.core.guard.turns import Conversation
from llmgw.core.messages.request import prompt_body
from llmgw.gateway.ask import Ask
from llmgw.gateway.surfaces import chat
from llmgw.gateway.surfaces.anthropic_body import chat_bytes
from llmgw.gateway.surfaces.messages import MessagesTranslator
from llmgw.relay.request import Request
from llmgw.schema.anthropic.request import CountRequest

PATH = "/v1/messages/count_tokens"
LABEL = "count_tokens"
ROLES = chat.ROLES

_REQUEST = msgspec.json.Decoder(CountRequest).decode
_ENCODE = msgspec.json.Encoder().encode


def translate(raw: bytes) -> bytes:
    """Make the body of a chat with this prompt. Raises `ApiError` 400."""
    return chat_bytes(raw, _REQUEST, prompt_body)


def read(raw: bytes) -> Ask:
    """Read the body that `translate` made."""
    return chat.read(raw)


def conversation(body: Mapping[str, Any]) -> Conversation:
    """Give all texts of that body, decoded."""
    return chat.conversation(body)


def answer(tokens: int) -> bytes:
    """Give the body of an answer."""
    return _ENCODE({"input_tokens": tokens})


def translator(_request: Request, request_id: str) -> "CountTranslator":
    """Make the translator of one request's answers."""
    return CountTranslator(request_id)


class CountTranslator(MessagesTranslator):
    """Says errors in Anthropic's words; what else is answered is so already."""

    def answer(self, body: bytes) -> bytes:
        """Give it as it is."""
        return body
