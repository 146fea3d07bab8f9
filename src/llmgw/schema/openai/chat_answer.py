"""Answers of chats, plain and in chunks, as other surfaces read them. What an engine leaves out is `None`."""

from typing import Any

from llmgw.schema.openai.usage import Usage
from llmgw.schema.value import Value


class FunctionPart(Value, frozen=True, kw_only=True):
    """A function that is called: in a stream, the name comes first and the arguments in pieces."""

    name: str | None = None
    arguments: str | None = None


class ToolCallPart(Value, frozen=True, kw_only=True):
    """A tool call, or in a stream a piece of the one with this index."""

    index: int | None = None
    id: str | None = None
    function: FunctionPart = FunctionPart()


class Said(Value, frozen=True, kw_only=True):
    """What the model says: all of it in a `message`, more of it in a `delta`."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    """The same under the name that newer engines use."""
    tool_calls: tuple[ToolCallPart, ...] | None = None

    @property
    def thought(self) -> str | None:
        """What the model thinks aloud, under either name."""
        return self.reasoning_content or self.reasoning


class DeltaChoice(Value, frozen=True, kw_only=True):
    """One choice's part in a chunk."""

    index: int = 0
    delta: Said | None = None
    finish_reason: str | None = None
    stop_reason: Any = None
    """vLLM: the text or the number of the token that ended it."""
    matched_stop: Any = None
    """SGLang: the same."""


class MessageChoice(Value, frozen=True, kw_only=True):
    """One choice of a plain answer."""

    index: int = 0
    message: Said = Said()
    finish_reason: str | None = None
    stop_reason: Any = None
    matched_stop: Any = None


class Timings(Value, frozen=True, kw_only=True):
    """llama.cpp's own counts, in each chunk where they were asked for."""

    cache_n: int | None = None
    prompt_n: int | None = None
    predicted_n: int | None = None


class ChatChunk(Value, frozen=True, kw_only=True):
    """One event of a streamed chat."""

    id: str | None = None
    model: str | None = None
    created: int | None = None
    choices: tuple[DeltaChoice, ...] | None = None
    usage: Usage | None = None
    timings: Timings | None = None
    error: Any = None
    """Set in the event that ends a stream which failed; such an event has nothing else."""


class ChatAnswer(Value, frozen=True, kw_only=True):
    """A plain answer of a chat."""

    id: str | None = None
    model: str | None = None
    created: int | None = None
    choices: tuple[MessageChoice, ...]
    usage: Usage | None = None
