"""The turns of OpenAI requests: the union of all that is forwarded, so that no second field slips past a rule."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from llmgw.core.guard.turns import Conversation, Speaker, Turn, Unreadable
from llmgw.schema.guard.coverage import Why

Found = Turn | Unreadable

_SPEAKERS = {
    "system": Speaker.SYSTEM,
    "developer": Speaker.SYSTEM,
    "user": Speaker.USER,
    "assistant": Speaker.ASSISTANT,
    "tool": Speaker.TOOL,
    "function": Speaker.TOOL,
}
UNREADABLE = {
    "image_url": Why.IMAGE,
    "input_image": Why.IMAGE,
    "image": Why.IMAGE,
    "input_audio": Why.AUDIO,
    "audio": Why.AUDIO,
    "video_url": Why.FILE,
    "file": Why.FILE,
    "input_file": Why.FILE,
}
"""Types of parts that hold no text."""
_QUIET = frozenset({"role", "type", "id", "tool_call_id", "index"})
"""Members of a message that engines do not put before the model as text of somebody's choice."""
_TOP = ("tools", "functions", "response_format", "guided_json", "guided_regex", "guided_grammar", "grammar")
"""Members of a request beside the messages that reach the model as text."""
TEXT_MEMBERS = frozenset({"messages", "prompt", "suffix", *_TOP})
"""All members of a request that hold texts for the model."""


def chat_conversation(body: Mapping[str, Any]) -> Conversation:
    """Read the body of `/v1/chat/completions`. Takes any JSON: what has an unknown form is unreadable, not ignored."""
    found: list[Found] = []
    for name in _TOP:
        if body.get(name) is not None:
            found += _anything(body[name], Speaker.SYSTEM, name)
    messages = body.get("messages")
    if isinstance(messages, list):
        for index, message in enumerate(messages):
            found += _message(message, f"messages[{index}]")
    elif messages is not None:
        found.append(Unreadable("messages", Why.UNKNOWN_PART))
    tools = body.get("tools") or body.get("functions")
    return _conversation(
        found,
        tools=len(tools) if isinstance(tools, list) else 0,
        messages=len(messages) if isinstance(messages, list) else 0,
    )


def completion_conversation(body: Mapping[str, Any]) -> Conversation:
    """Read the body of `/v1/completions`: one text, several, or the numbers of tokens, which nobody can read."""
    prompt = body.get("prompt")
    prompts = prompt if isinstance(prompt, list) and not _numbers(prompt) else [prompt]
    found: list[Found] = []
    for index, one in enumerate(prompts):
        where = "prompt" if one is prompt else f"prompt[{index}]"
        if isinstance(one, str):
            found.append(Turn(Speaker.USER, one, where))
        elif one is not None:
            why = Why.TOKEN_NUMBERS if isinstance(one, list) and _numbers(one) else Why.UNKNOWN_PART
            found.append(Unreadable(where, why))
    if isinstance(body.get("suffix"), str):
        found.append(Turn(Speaker.USER, body["suffix"], "suffix"))
    for name in _TOP:
        if body.get(name) is not None:
            found += _anything(body[name], Speaker.SYSTEM, name)
    return _conversation(found, messages=len(prompts))


def _conversation(found: list[Found], *, messages: int, tools: int = 0) -> Conversation:
    return Conversation(
        tuple(one for one in found if isinstance(one, Turn) and one.text.strip()),
        tuple(one for one in found if isinstance(one, Unreadable)),
        tools,
        messages,
    )


def _message(message: Any, where: str) -> Iterator[Found]:
    if not isinstance(message, dict):
        yield Unreadable(where, Why.UNKNOWN_PART)
        return
    role = message.get("role")
    # An unknown role reaches the model as the template pleases: judged as a stranger's words.
    speaker = _SPEAKERS.get(role, Speaker.USER) if isinstance(role, str) else Speaker.USER
    yield from _content(message.get("content"), speaker, f"{where}.content")
    for name, value in message.items():
        if name != "content" and name not in _QUIET and value is not None:
            yield from _anything(value, speaker, f"{where}.{name}")


def _content(content: Any, speaker: Speaker, where: str) -> Iterator[Found]:
    if isinstance(content, list):
        for index, part in enumerate(content):
            yield from _part(part, speaker, f"{where}[{index}]")
    elif isinstance(content, str):
        yield Turn(speaker, content, where)
    elif content is not None:
        yield Unreadable(where, Why.UNKNOWN_PART)


def _part(part: Any, speaker: Speaker, where: str) -> Iterator[Found]:
    if isinstance(part, str):
        yield Turn(speaker, part, where)
        return
    if not isinstance(part, dict):
        yield Unreadable(where, Why.UNKNOWN_PART)
        return
    kind = part.get("type")
    if isinstance(kind, str) and kind in UNREADABLE:
        yield Unreadable(where, UNREADABLE[kind])
        return
    texts = [name for name, value in part.items() if isinstance(value, str) and name not in _QUIET]
    if not texts:
        yield Unreadable(where, Why.UNKNOWN_PART)
    for name, value in part.items():
        if name not in _QUIET and value is not None:
            yield from _anything(value, speaker, f"{where}.{name}")


def _anything(value: Any, speaker: Speaker, where: str) -> Iterator[Found]:
    """Read any JSON as one text: strings as they are, the rest as it is written."""
    if isinstance(value, str):
        yield Turn(speaker, value, where)
    elif isinstance(value, dict | list) and value:
        try:
            # As a model sees it after the template: with the letters themselves, not with their escapes.
            yield Turn(speaker, _flat(value), where)
        except RecursionError:
            yield Unreadable(where, Why.UNKNOWN_PART)


def _flat(value: Any) -> str:
    """Write names and texts of a JSON value, one a line: escapes would hide a text from patterns and judges."""
    return "\n".join(_texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(inner, str):
                yield f"{name}: {inner}"
                if name == "arguments":
                    yield from _arguments(inner)
            else:
                yield str(name)
                yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


def _arguments(text: str) -> Iterator[str]:
    """Read a tool's arguments, JSON in a text, as templates do: their escapes hide nothing."""
    try:
        yield from _texts(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return  # no JSON: the text itself was given already


def _numbers(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(one, int) for one in values)
