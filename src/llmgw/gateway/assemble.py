"""A plain answer put together from a stream, as the engine itself would have given it.

llama.cpp notices that a client left only while it streams, so it is always asked for a stream. What a chunk says of
the whole answer (id, model, usage, timings, …) is handed on raw; choices are put together by index.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from llmgw.gateway.errors import from_engine, status_of
from llmgw.schema.openai.chunk import Chunk, ChunkChoice

_DECODE = msgspec.json.Decoder(Chunk).decode
_ENCODE = msgspec.json.Encoder().encode
_NO_CHUNK = (b"[DONE]", b"null", b"")
"""`null` is what llama.cpp streams first for several prompts."""

_MEMBERS = ("created", "model", "system_fingerprint", "usage", "id", "timings")


class Incomplete(Exception):
    """The stream ended before each choice said why it ended."""


class _Choice:
    """One choice so far."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.message: dict[str, Any] = {}
        self.logprobs: Any | UnsetType = UNSET
        self.finish_reason: str | None = None

    def add(self, part: ChunkChoice) -> None:
        if part.text is not None:
            self.text.append(part.text)
        if part.delta is not None:
            self._add_delta(part.delta)
        if part.logprobs is not UNSET:
            self.logprobs = _joined_logprobs(self.logprobs, part.logprobs)
        self.finish_reason = part.finish_reason or self.finish_reason

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for name, value in delta.items():
            if value is None:
                continue
            if name == "content":
                self.text.append(value)
            elif name == "tool_calls":
                _join_tool_calls(self.message.setdefault("tool_calls", {}), value)
            elif name != "role" and isinstance(value, str):
                self.message[name] = self.message.get(name, "") + value
            else:
                self.message[name] = value


class Assembler:
    """Takes in the data of a stream's events. `chat` says which of the two shapes the answer has."""

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat
        self._choices: dict[int, _Choice] = {}
        self._members: dict[str, msgspec.Raw] = {}

    def add(self, data: bytes) -> None:
        """Take in one event's data. Raises `EngineError` for an error inside the stream, with the status it names."""
        if data in _NO_CHUNK:
            return
        chunk = _DECODE(data)
        if chunk.error is not UNSET:
            raise from_engine(status_of(bytes(chunk.error)), data)
        for part in chunk.choices or ():
            self._choices.setdefault(part.index, _Choice()).add(part)
        for name in _MEMBERS:
            value = getattr(chunk, name)
            if value is not UNSET:
                self._members[name] = value.copy()

    def result(self) -> bytes:
        """Give the plain answer. Raises `Incomplete`."""
        if not self._choices or any(choice.finish_reason is None for choice in self._choices.values()):
            raise Incomplete
        shape = self._chat_choice if self._chat else self._text_choice
        answer: dict[str, Any] = {
            "choices": [shape(index, self._choices[index]) for index in sorted(self._choices)],
            "object": "chat.completion" if self._chat else "text_completion",
        }
        return _ENCODE(answer | self._members)

    def _chat_choice(self, index: int, choice: _Choice) -> dict[str, Any]:
        message = {"role": "assistant", "content": "".join(choice.text), **choice.message}
        if "tool_calls" in message:
            message["tool_calls"] = list(message["tool_calls"].values())
        whole: dict[str, Any] = {"finish_reason": choice.finish_reason, "index": index, "message": message}
        if choice.logprobs is not UNSET:
            whole["logprobs"] = choice.logprobs
        return whole

    def _text_choice(self, index: int, choice: _Choice) -> dict[str, Any]:
        logprobs = None if choice.logprobs is UNSET else choice.logprobs
        return {
            "text": "".join(choice.text),
            "index": index,
            "logprobs": logprobs,
            "finish_reason": choice.finish_reason,
        }


def _join_tool_calls(calls: dict[int, dict[str, Any]], parts: list[dict[str, Any]]) -> None:
    for part in parts:
        call = calls.setdefault(part.get("index", 0), {})
        for name, value in part.items():
            if name == "index" or value is None:
                continue
            if name != "function":
                call[name] = value
                continue
            function = call.setdefault("function", {})
            for key, text in value.items():
                function[key] = function.get(key, "") + text if isinstance(text, str) else text


def _joined_logprobs(so_far: Any | UnsetType, part: Any) -> Any:
    if so_far is UNSET or so_far is None:
        return part
    if not isinstance(so_far, dict) or not isinstance(part, dict):
        return so_far if part is None else part
    joined = dict(so_far)
    for name, value in part.items():
        before = joined.get(name)
        joined[name] = before + value if isinstance(before, list) and isinstance(value, list) else value
    return joined
