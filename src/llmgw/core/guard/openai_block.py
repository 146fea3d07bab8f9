"""Answers that a guardrail ends, as OpenAI's own clients understand them: `content_filter`, never an error's frame."""

from collections.abc import Iterable, Mapping
from typing import Any

FILTERED = "content_filter"
"""The finish reason that clients know."""


def blocked_answer(body: Mapping[str, Any], words: str) -> dict[str, Any]:
    """Give a plain answer without what it said: every choice ends filtered, and says `words` instead."""
    choices = [one for one in body.get("choices") or () if isinstance(one, dict)]
    return {**body, "choices": [_blocked(choice, words) for choice in choices]}


def closing_chunks(
    chunk: Mapping[str, Any], open_choices: Iterable[int], words: str | None = None
) -> list[dict[str, Any]]:
    """Give the chunks that end a stream in the middle, made like `chunk`, one of it that went before.

    `words` are said before the end where nothing was said yet. Usage and `[DONE]` follow as in any stream.
    """
    frame = {name: value for name, value in chunk.items() if name not in {"choices", "usage", "timings", "error"}}
    chat = chunk.get("object") != "text_completion"
    numbers = sorted(set(open_choices))
    chunks = []
    if words:
        chunks += [{**frame, "choices": [_part(number, chat=chat, text=words)]} for number in numbers]
    chunks += [{**frame, "choices": [_part(number, chat=chat, finish=FILTERED)]} for number in numbers]
    return chunks


def _part(number: int, *, chat: bool, text: str = "", finish: str | None = None) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": number, "finish_reason": finish, "logprobs": None}
    if not chat:
        return {**choice, "text": text}
    return {**choice, "delta": {"role": "assistant", "content": text} if text else {}}


def _blocked(choice: Mapping[str, Any], words: str) -> dict[str, Any]:
    ended = {"index": choice.get("index", 0), "finish_reason": FILTERED, "logprobs": None}
    if "message" in choice:
        return {**ended, "message": {"role": "assistant", "content": words, "refusal": None}}
    return {**ended, "text": words}
