"""What a model says, in the order of Anthropic's blocks: the same for a plain answer and for each piece of a stream."""

from enum import StrEnum
from typing import NamedTuple

from llmgw.schema.openai.chat_answer import Said, ToolCallPart


class Kind(StrEnum):
    """Types of blocks."""

    THINKING = "thinking"
    TEXT = "text"
    TOOL_USE = "tool_use"


class Part(NamedTuple):
    """A block, or more of one. `text` is what grows: words, thoughts, or the JSON of a tool's input."""

    kind: Kind
    text: str
    call: ToolCallPart | None = None


def parts_of(said: Said) -> list[Part]:
    """Give what was said; nothing for empty texts."""
    parts = [Part(Kind.THINKING, said.thought or ""), Part(Kind.TEXT, (said.content or "") + (said.refusal or ""))]
    calls = [Part(Kind.TOOL_USE, call.function.arguments or "", call) for call in said.tool_calls or ()]
    return [part for part in parts if part.text] + calls
