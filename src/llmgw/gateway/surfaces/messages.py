"""`POST /v1/messages`: Anthropic's API, translated."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from llmgw.core.guard.turns import Conversation
from llmgw.core.messages.answer import message_body
from llmgw.core.messages.errors import error_body
from llmgw.core.messages.request import chat_body
from llmgw.core.messages.stream import MessageStream, event
from llmgw.gateway.ask import Ask
from llmgw.gateway.surfaces import chat
from llmgw.gateway.surfaces.anthropic_body import chat_bytes
from llmgw.relay.exchange import Headers
from llmgw.relay.request import Request
from llmgw.schema.anthropic.request import MessagesRequest
from llmgw.schema.engine import EngineKind
from llmgw.schema.openai.chat_answer import ChatAnswer, ChatChunk

PATH = "/v1/messages"
LABEL = "messages"
ROLES = chat.ROLES

_REQUEST = msgspec.json.Decoder(MessagesRequest).decode
_ANSWER = msgspec.json.Decoder(ChatAnswer).decode
_ENCODE = msgspec.json.Encoder().encode
_TIMINGS = b',"timings_per_token":true}'
"""llama.cpp tells the tokens of the prompt with the first word where it is asked so, else with the last."""


def translate(raw: bytes) -> bytes:
    """Make the body of a chat. Raises `ApiError` 400."""
    return chat_bytes(raw, _REQUEST, chat_body)


def read(raw: bytes) -> Ask:
    """Read the body that `translate` made."""
    ask = chat.read(raw)
    if not ask.streams:
        return ask

    def body(kind: str, context: int | None) -> bytes:
        asked = ask.body(kind, context)
        return asked[:-1] + _TIMINGS if kind == EngineKind.LLAMACPP else asked

    return replace(ask, body=body)


def conversation(body: Mapping[str, Any]) -> Conversation:
    """Give all texts of that body, decoded, that reach the model."""
    return chat.conversation(body)


def translator(_request: Request, request_id: str) -> "MessagesTranslator":
    """Make the translator of one request's answers."""
    return MessagesTranslator(request_id)


class MessagesTranslator:
    """Says in Anthropic's words what a chat answers."""

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._stream = MessageStream()

    def headers(self) -> Headers:
        """Give the id where Anthropic's clients look for it."""
        return [(b"request-id", self._request_id.encode())]

    def answer(self, body: bytes) -> bytes:
        """Give a message."""
        return _ENCODE(message_body(_ANSWER(body)))

    def error(self, status: int, told: Mapping[str, Any]) -> bytes:
        """Give an error's body."""
        return _ENCODE(error_body(status, told, self._request_id))

    def waiting(self, text: str) -> bytes:
        """Give a ping, which clients may count, with words for people who look at the wire."""
        return b": " + " ".join(text.split()).encode() + b"\n" + event("ping", {})

    def chunk(self, chunk: ChatChunk) -> bytes:
        """Give a chunk's events."""
        return self._stream.chunk(chunk)

    def failed(self, told: Mapping[str, Any]) -> bytes:
        """Give the event of an error."""
        return event("error", error_body(None, told, self._request_id))

    def end(self) -> bytes:
        """Give the last events."""
        return self._stream.end()
