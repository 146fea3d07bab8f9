"""The conversation: Anthropic's messages of blocks as the messages of a chat."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from llmgw.core.untranslatable import Untranslatable
from llmgw.schema.anthropic.blocks import (
    Base64Source,
    Block,
    ContentSource,
    DocumentBlock,
    FileSource,
    ImageBlock,
    RedactedThinkingBlock,
    ResultBlock,
    SearchResultBlock,
    TextBlock,
    TextSource,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
    UrlSource,
)
from llmgw.schema.anthropic.request import Author, InputMessage

Part = dict[str, Any]
Message = dict[str, Any]

ATTRIBUTION = "x-anthropic-billing-header"
"""First words of a block that Claude Code puts before its system prompt for the provider's books, new each time.
No model is to read it, and before a prompt it would keep every prefix cache cold."""

_ENCODE = msgspec.json.Encoder().encode
_BREAK = "\n\n"


class _Placed(NamedTuple):
    """A block and where it stands in the request."""

    block: Block
    where: str


def chat_messages(system: str | Sequence[TextBlock] | None, messages: Sequence[InputMessage]) -> list[Message]:
    """Give the messages of a chat. Neighbours of one role become one message, as Anthropic has it.

    Raises `Untranslatable` for a block that its role cannot say or that no engine could be shown.
    """
    out: list[Message] = []
    told = _system(system)
    if told:
        out.append({"role": "system", "content": told})
    for role, run in groupby(enumerate(messages), key=lambda one: one[1].role):
        placed = [one for index, message in run for one in _placed(message, f"messages[{index}]")]
        out += _ROLES[role](placed)
    return out


def _system(system: str | Sequence[TextBlock] | None) -> str:
    if isinstance(system, str):
        return system
    return _BREAK.join(one.text for one in system or () if one.text and not one.text.startswith(ATTRIBUTION))


def _placed(message: InputMessage, where: str) -> list[_Placed]:
    if isinstance(message.content, str):
        return [_Placed(TextBlock(text=message.content), f"{where}.content")]
    return [_Placed(block, f"{where}.content[{index}]") for index, block in enumerate(message.content)]


def _from_system(placed: Sequence[_Placed]) -> Iterator[Message]:
    for block, where in placed:
        if not isinstance(block, TextBlock):
            raise _misplaced(block, where, Author.SYSTEM)
        yield {"role": "system", "content": block.text}


def _from_user(placed: Sequence[_Placed]) -> Iterator[Message]:
    """Results of tools come first: they answer the message before, and a chat's hold nothing but text."""
    parts: list[Part] = []
    for block, where in placed:
        if isinstance(block, ToolResultBlock):
            text, pictures = _result(block, where)
            yield {"role": "tool", "tool_call_id": block.tool_use_id, "content": text}
            parts += pictures
        elif isinstance(block, TextBlock | ImageBlock | DocumentBlock | SearchResultBlock):
            parts += _parts(block, where)
        else:
            raise _misplaced(block, where, Author.USER)
    if parts or not any(isinstance(block, ToolResultBlock) for block, _ in placed):
        yield {"role": "user", "content": _content(parts)}


def _from_assistant(placed: Sequence[_Placed]) -> Iterator[Message]:
    parts: list[Part] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block, where in placed:
        if isinstance(block, TextBlock):
            parts += _parts(block, where)
        elif isinstance(block, ThinkingBlock):
            thoughts.append(block.thinking)
        elif isinstance(block, ToolUseBlock):
            function = {"name": block.name, "arguments": _ENCODE(block.input).decode()}
            calls.append({"id": block.id, "type": "function", "function": function})
        elif not isinstance(block, RedactedThinkingBlock):  # nobody here could read that one
            raise _misplaced(block, where, Author.ASSISTANT)
    message: Message = {"role": "assistant", "content": _content(parts)}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    yield message


_ROLES = {Author.USER: _from_user, Author.ASSISTANT: _from_assistant, Author.SYSTEM: _from_system}


def _content(parts: list[Part]) -> str | list[Part]:
    """Give one text as itself: templates that know no parts are still common."""
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _result(block: ToolResultBlock, where: str) -> tuple[str, list[Part]]:
    blocks = [TextBlock(text=block.content)] if isinstance(block.content, str) else block.content or ()
    parts = [part for index, one in enumerate(blocks) for part in _parts(one, f"{where}.content[{index}]")]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    if block.is_error:  # a chat has no other place to say so
        text = f"Error: {text}" if text else "Error"
    return text, [part for part in parts if part["type"] != "text"]


def _parts(block: ResultBlock, where: str) -> Iterator[Part]:
    if isinstance(block, TextBlock):
        yield _text(block.text)
    elif isinstance(block, ImageBlock):
        yield _image(block, where)
    elif isinstance(block, ToolReferenceBlock):
        yield _text(block.tool_name)
    elif isinstance(block, SearchResultBlock):
        yield _text(_BREAK.join([block.title, block.source, *(text.text for text in block.content)]))
    else:
        yield from _document(block, where)


def _document(block: DocumentBlock, where: str) -> Iterator[Part]:
    source = block.source
    about = [text for text in (block.title, block.context) if text]
    if isinstance(source, TextSource):
        yield _text(_BREAK.join([*about, source.data]))
    elif isinstance(source, ContentSource):
        if about:
            yield _text(_BREAK.join(about))
        blocks = [TextBlock(text=source.content)] if isinstance(source.content, str) else source.content
        for index, inner in enumerate(blocks):
            yield from _parts(inner, f"{where}.source.content[{index}]")
    else:
        raise Untranslatable(
            "engines here read documents of type 'text' and 'content' only; extract the text first",
            field=f"{where}.source.type",
        )


def _image(block: ImageBlock, where: str) -> Part:
    source = block.source
    if isinstance(source, FileSource):
        raise Untranslatable(
            "no files are kept here; send the image as 'base64' or 'url'", field=f"{where}.source.type"
        )
    url = source.url if isinstance(source, UrlSource) else _data_url(source)
    return {"type": "image_url", "image_url": {"url": url}}


def _data_url(source: Base64Source) -> str:
    return f"data:{source.media_type};base64,{source.data}"


def _text(text: str) -> Part:
    return {"type": "text", "text": text}


def _misplaced(block: Block, where: str, role: Author) -> Untranslatable:
    return Untranslatable(f"a block {block.__struct_config__.tag!r} in a message of role {role.value!r}", field=where)
