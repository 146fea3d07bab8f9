"""Requests to `/v1/messages` and `/v1/messages/count_tokens`."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from llmgw.schema.anthropic.blocks import Block, TextBlock
from llmgw.schema.value import Value

MaxTokens = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
"""Engines read it into 32 bits; none answers with nothing."""


class Author(StrEnum):
    """Whose message it is."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


class InputMessage(Value, frozen=True, kw_only=True):
    """One message of the conversation so far."""

    role: Author
    content: str | tuple[Block, ...]


class Tool(Value, frozen=True, kw_only=True):
    """A tool of the client's. Tools that Anthropic defines have another type, and no schema."""

    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    type: str | None = None
    strict: bool | None = None
    allowed_callers: tuple[str, ...] | None = None


class AutoChoice(Value, frozen=True, kw_only=True, tag_field="type", tag="auto"):
    """The model decides."""

    disable_parallel_tool_use: bool | None = None


class AnyChoice(Value, frozen=True, kw_only=True, tag_field="type", tag="any"):
    """Some tool must be called."""

    disable_parallel_tool_use: bool | None = None


class ToolChoice(Value, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    """This tool must be called."""

    name: str
    disable_parallel_tool_use: bool | None = None


class NoChoice(Value, frozen=True, kw_only=True, tag_field="type", tag="none"):
    """No tool may be called."""


Choice = AutoChoice | AnyChoice | ToolChoice | NoChoice


class ThinkingEnabled(Value, frozen=True, kw_only=True, tag_field="type", tag="enabled"):
    """Think, for at most so many tokens."""

    budget_tokens: MaxTokens


class ThinkingAdaptive(Value, frozen=True, kw_only=True, tag_field="type", tag="adaptive"):
    """Think as seems right."""


class ThinkingDisabled(Value, frozen=True, kw_only=True, tag_field="type", tag="disabled"):
    """Do not think."""


Thinking = ThinkingEnabled | ThinkingAdaptive | ThinkingDisabled


class Effort(StrEnum):
    """How much a model should put into an answer."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class JsonFormat(Value, frozen=True, kw_only=True, tag_field="type", tag="json_schema"):
    """The answer is JSON of this schema."""

    schema: dict[str, Any]


class OutputConfig(Value, frozen=True, kw_only=True):
    """What the answer is to be like."""

    effort: Effort | None = None
    format: JsonFormat | None = None


class Metadata(Value, frozen=True, kw_only=True):
    """Whom the client asks for."""

    user_id: str | None = None


class CountRequest(Value, frozen=True, kw_only=True):
    """`POST /v1/messages/count_tokens`: what a prompt is made of."""

    model: str
    messages: Annotated[tuple[InputMessage, ...], msgspec.Meta(min_length=1)]
    system: str | tuple[TextBlock, ...] | None = None
    tools: tuple[Tool, ...] | None = None
    tool_choice: Choice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None
    """The older place of `output_config.format`."""


class MessagesRequest(CountRequest, frozen=True, kw_only=True):
    """`POST /v1/messages`."""

    max_tokens: MaxTokens
    metadata: Metadata | None = None
    stop_sequences: tuple[str, ...] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
