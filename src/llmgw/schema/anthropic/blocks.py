"""Blocks of content: what messages, system prompts and results of tools are made of."""

from typing import Any

from llmgw.schema.value import Value


class TextBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Words."""

    text: str


class Base64Source(Value, frozen=True, kw_only=True, tag_field="type", tag="base64"):
    """Bytes within the request."""

    media_type: str
    data: str


class UrlSource(Value, frozen=True, kw_only=True, tag_field="type", tag="url"):
    """Bytes that the engine fetches."""

    url: str


class FileSource(Value, frozen=True, kw_only=True, tag_field="type", tag="file"):
    """Bytes that were uploaded before, which no engine here knows."""

    file_id: str


class TextSource(Value, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A document that is plain text."""

    data: str


class ImageBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """A picture."""

    source: Base64Source | UrlSource | FileSource


class ContentSource(Value, frozen=True, kw_only=True, tag_field="type", tag="content"):
    """A document that is made of blocks itself."""

    content: str | tuple[TextBlock | ImageBlock, ...]


class DocumentBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="document"):
    """A document with its title and what is said about it."""

    source: TextSource | ContentSource | Base64Source | UrlSource | FileSource
    title: str | None = None
    context: str | None = None


class SearchResultBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="search_result"):
    """What a search of the client's found."""

    source: str
    title: str
    content: tuple[TextBlock, ...]


class ToolReferenceBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_reference"):
    """The name of a tool that a search for tools found."""

    tool_name: str


ResultBlock = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock | ToolReferenceBlock


class ToolResultBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_result"):
    """What a tool answered."""

    tool_use_id: str
    content: str | tuple[ResultBlock, ...] | None = None
    is_error: bool | None = None


class ToolUseBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="tool_use"):
    """A call of a tool by the model."""

    id: str
    name: str
    input: dict[str, Any]


class ThinkingBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """What the model thought."""

    thinking: str


class RedactedThinkingBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="redacted_thinking"):
    """What another provider's model thought, encrypted for that provider."""


Block = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ToolUseBlock
    | ToolResultBlock
    | ThinkingBlock
    | RedactedThinkingBlock
)
