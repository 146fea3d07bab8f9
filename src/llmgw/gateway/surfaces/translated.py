"""Surfaces that are no chat are translated at the client's edge.

The request becomes a chat's and goes the whole way of a chat (routing, guardrails, retries, usage); what is answered is
translated where it is written to the client. So a verdict, an error or a pause cannot differ between surfaces.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from llmgw.core.untranslatable import Untranslatable
from llmgw.gateway.ask import Ask
from llmgw.gateway.errors import ApiError
from llmgw.gateway.sse import EventSplitter, events, payload
from llmgw.relay.answering import Answering
from llmgw.relay.exchange import Headers, Source
from llmgw.relay.request import Request
from llmgw.schema.model import Role
from llmgw.schema.openai.chat_answer import ChatChunk

_ERROR = 400
_DONE = b"[DONE]"

_CHUNK = msgspec.json.Decoder(ChatChunk).decode
_OBJECT = msgspec.json.Decoder(dict[str, Any]).decode
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Translator(Protocol):
    """One request's answers in the words of its surface. Pure: bytes of whole events, or of a whole body.

    A stream is any number of `waiting`, `chunk`…, then `end` or `failed`. All may raise `Untranslatable`, and `answer`
    a `msgspec.DecodeError`.
    """

    def headers(self) -> Headers:
        """Give headers that all answers have, beside the usual ones."""

    def answer(self, body: bytes) -> bytes:
        """Translate the body of a plain answer."""

    def error(self, status: int, told: Mapping[str, Any]) -> bytes:
        """Give the body of an error. `told` is the inside of OpenAI's `{"error": …}`."""

    def waiting(self, text: str) -> bytes:
        """Tell that the answer is on the way; at any time, before the first chunk as well."""

    def chunk(self, chunk: ChatChunk) -> bytes:
        """Translate a chunk; nothing where it waits for a later one."""

    def failed(self, told: Mapping[str, Any]) -> bytes:
        """End a stream with an error, which may be the first that is said."""

    def end(self) -> bytes:
        """End a stream that is whole. The chunk with the usage, where there is one, came before."""


class TranslatedSurface(Protocol):
    """What a module of such a surface has."""

    PATH: str
    LABEL: str
    ROLES: frozenset[Role]

    def translate(self, raw: bytes) -> bytes:
        """Make the body of a chat of a request's. Raises `ApiError` 400."""

    def read(self, raw: bytes) -> Ask:
        """Read the body that `translate` made."""

    def conversation(self, body: Mapping[str, Any]) -> Any:
        """Give all texts of that body, decoded, that reach the model."""

    def translator(self, request: Request, request_id: str) -> Translator:
        """Make the translator of one request's answers. Never raises: errors need one too."""


class TranslatedExchange:
    """An exchange to which a chat's answers are given, and which sends what its translator makes of them."""

    __slots__ = ("_exchange", "_over", "_splitter", "_translator", "request")

    def __init__(self, exchange: Answering, translator: Translator) -> None:
        self.request = exchange.request
        """As it came; the chat's after `translate`."""
        self._exchange = exchange
        self._translator = translator
        self._splitter = EventSplitter()
        self._over = False
        """The stream's last event went out."""

    def translate(self, translate: Callable[[bytes], bytes]) -> None:
        """Put the body of a chat in the place of the request's."""
        came = self.request
        self.request = Request(
            method=came.method,
            path=came.path,
            query=came.query,
            headers=came.headers,
            body=translate(came.body),
            version=came.version,
            keep_alive=came.keep_alive,
        )

    @property
    def started(self) -> bool:
        """A byte of the answer's head went out."""
        return self._exchange.started

    @property
    def gone(self) -> bool:
        """The client left before `end`."""
        return self._exchange.gone

    @property
    def paused(self) -> bool:
        """The client does not keep up now."""
        return self._exchange.paused

    @property
    def source(self) -> Source | None:
        """Where the body comes from while it is piped."""
        return self._exchange.source

    @source.setter
    def source(self, source: Source | None) -> None:
        self._exchange.source = source

    def on_gone(self, callback: Callable[[], object]) -> None:
        """Call `callback` at once when the client leaves before `end`."""
        self._exchange.on_gone(callback)

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer and end. Raises `ApiError` 502 for one of the engine that is no chat's."""
        whole = self._translator.error(status, _error(body)) if status >= _ERROR else self._answer(body)
        self._over = True
        self._exchange.respond(status, [*headers, *self._translator.headers()], whole)

    def start(self, status: int, headers: Headers, *, content_length: int | None = None) -> None:
        """Send the head of a stream, whose length nobody knows."""
        del content_length
        self._exchange.start(status, [*headers, *self._translator.headers()])

    def write(self, data: bytes) -> None:
        """Send what becomes of a piece of a chat's stream. Raises `ApiError` 502 for what is no chunk."""
        for event in events(self._splitter.feed(data)):
            self._exchange.write(self._event(event))

    def end(self) -> None:
        """End the answer. Idempotent."""
        if self._splitter.rest:
            self.write(b"\n\n")  # the last event may lack its blank line
        if not self._over and self._exchange.started:
            self._over = True
            self._exchange.write(self._translator.end())
        self._exchange.end()

    def _answer(self, body: bytes) -> bytes:
        try:
            return self._translator.answer(body)
        except _NOT_JSON as error:
            raise _broken("what is no chat completion") from error
        except Untranslatable as error:
            raise _broken(error.message) from error

    def _event(self, event: bytes) -> bytes:
        data = payload(event)
        if self._over or (data is not None and data.startswith(_DONE)):
            return b""
        if data is None:
            return self._translator.waiting(_comment(event)) if event.startswith(b":") else b""
        try:
            chunk = _CHUNK(data)
            if not chunk.error:
                return self._translator.chunk(chunk)
        except _NOT_JSON as error:
            raise _broken("what is no chunk") from error
        except Untranslatable as error:
            raise _broken(error.message) from error
        self._over = True
        return self._translator.failed(_error(data))


def _error(body: bytes) -> dict[str, Any]:
    """Give the inside of an error; errors that reach here are OpenAI's, or a text in their place."""
    try:
        told = _OBJECT(body).get("error")
    except _NOT_JSON:
        told = None
    return told if isinstance(told, dict) else {"message": str(told or "the engine failed")}


def _comment(event: bytes) -> str:
    return event.removeprefix(b":").strip().decode(errors="replace")


def _broken(what: str) -> ApiError:
    return ApiError(502, f"the engine sent {what}", code="upstream_error", kind="server_error")
