"""A plain answer: a chat completion as a message."""

from typing import Any

import msgspec

from llmgw.core.messages.ending import Tokens, stop_of, tokens_of, usage_body
from llmgw.core.messages.parts import Kind, Part, parts_of
from llmgw.core.untranslatable import Untranslatable
from llmgw.schema.openai.chat_answer import ChatAnswer, ToolCallPart

INVALID_JSON = "INVALID_JSON"
"""Under this name stands a tool's input that is no JSON object (cut short, mostly), as Anthropic has it too."""

_INPUT = msgspec.json.Decoder(dict[str, Any]).decode
_ID = "chatcmpl-"


def message_body(answer: ChatAnswer) -> dict[str, Any]:
    """Give the message. Raises `Untranslatable` for an answer that says nothing, not even why it ended."""
    if not answer.choices:
        raise Untranslatable("an answer without a choice")
    choice = answer.choices[0]
    parts = parts_of(choice.message)
    stop = stop_of(choice, called=any(part.kind is Kind.TOOL_USE for part in parts))
    frame = message_frame(answer.id, answer.model, tokens_of(answer.usage))
    content = [_block(part, frame["id"], number) for number, part in enumerate(parts)]
    return {**frame, "content": content, "stop_reason": stop.reason, "stop_sequence": stop.sequence}


def message_frame(answer_id: str | None, model: str | None, tokens: Tokens | None) -> dict[str, Any]:
    """Give a message that says nothing yet."""
    return {
        "id": f"msg_{(answer_id or '').removeprefix(_ID)}",
        "type": "message",
        "role": "assistant",
        "model": model or "",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage_body(tokens or Tokens()),
    }


def opened(part: Part, message_id: str, number: int) -> dict[str, Any]:
    """Give a block that is empty yet. Raises `Untranslatable` for a call that names no tool."""
    if part.kind is Kind.TEXT:
        return {"type": "text", "text": ""}
    if part.kind is Kind.THINKING:
        return {"type": "thinking", "thinking": "", "signature": ""}
    call = part.call or ToolCallPart()
    if not call.function.name:
        raise Untranslatable("a tool call that names no tool")
    # An engine that gives calls no ids gets made ones: the client's results must name their call.
    return {
        "type": "tool_use",
        "id": call.id or f"toolu_{message_id}_{number}",
        "name": call.function.name,
        "input": {},
    }


def _block(part: Part, message_id: str, number: int) -> dict[str, Any]:
    block = opened(part, message_id, number)
    return (
        {**block, "input": _input(part.text)} if part.kind is Kind.TOOL_USE else {**block, part.kind.value: part.text}
    )


def _input(arguments: str) -> dict[str, Any]:
    if not arguments.strip():
        return {}
    try:
        return _INPUT(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {INVALID_JSON: arguments}
