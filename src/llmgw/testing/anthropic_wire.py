"""Anthropic's wire as a strict client reads it: a stream is put together, and what is out of order is an error."""

import json
from typing import Any

from llmgw.testing.guard_conversations import Conversation

Event = dict[str, Any]
_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


def events_of(body: bytes) -> list[Event]:
    """Give the events of a stream, each as its data says; pings and comments left out. Raises `ValueError`."""
    out = []
    for block in body.decode().split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if not lines:
            continue
        name, data = (line.partition(": ")[2] for line in lines)
        told: Event = json.loads(data)
        _must(told["type"] == name, f"an event {name} that calls itself {told['type']}")
        if name != "ping":
            out.append(told)
    return out


def message_of(body: bytes) -> dict[str, Any]:
    """Put a stream together to the message it tells. Raises `ValueError` for one that breaks the order of events."""
    first, *rest = events_of(body)
    _must(first["type"] == "message_start", f"a stream that begins with {first['type']}")
    message: dict[str, Any] = first["message"]
    inputs: dict[int, str] = {}
    now: int | None = None
    for told in rest:
        _must(message["stop_reason"] is None or told["type"] == "message_stop", "an event after the end")
        match told["type"]:
            case "content_block_start":
                _must(now is None and told["index"] == len(message["content"]), "a block within another")
                now = told["index"]
                message["content"].append(told["content_block"])
            case "content_block_delta":
                _must(told["index"] == now, "more of a block that is not open")
                _grow(message["content"][now], told["delta"], inputs, told["index"])
            case "content_block_stop":
                _must(told["index"] == now, "the end of a block that is not open")
                now = None
            case "message_delta":
                _must(now is None, "an end within a block")
                message |= told["delta"]
                message["usage"] |= told["usage"]
            case other:
                _must(other == "message_stop" and told is rest[-1], f"an event {other}")
    _must(rest[-1]["type"] == "message_stop", "a stream without an end")
    for index, text in inputs.items():
        message["content"][index]["input"] = json.loads(text)
    return message


def texts(message: dict[str, Any]) -> str:
    """Give the words of a message."""
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def as_messages(conversation: Conversation) -> dict[str, Any]:
    """Give one of the scripted conversations as Anthropic's clients have it."""
    messages = [message for message in conversation.messages if message["role"] != "system"]
    system = [{"type": "text", "text": one["content"]} for one in conversation.messages if one["role"] == "system"]
    return {**({"system": system} if system else {}), "messages": [_message(message) for message in messages]}


def _message(message: dict[str, Any]) -> dict[str, Any]:
    if message["role"] == "tool":
        result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return {"role": "user", "content": [result]}
    calls = [
        {"type": "tool_use", "id": one["id"], "name": one["function"]["name"], "input": {}}
        for one in message.get("tool_calls", ())
    ]
    return {"role": message["role"], "content": calls or message["content"]}


def _grow(block: dict[str, Any], delta: dict[str, Any], inputs: dict[int, str], index: int) -> None:
    member = _GROWS[delta["type"]]
    if member == "partial_json":
        inputs[index] = inputs.get(index, "") + delta[member]
    else:
        block[member] += delta[member]


def _must(holds: object, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
