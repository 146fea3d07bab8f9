"""Answers of engines to judges' prompts, in the shapes that engines write them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_POSITIONS = 8
"""First tokens that are looked at: a verdict comes after a line break at most."""


class Position(NamedTuple):
    """One token of an answer, with the logarithms of the probabilities of the likeliest tokens there."""

    token: str
    chances: dict[str, float]


class JudgeAnswer(NamedTuple):
    """The text, why it ended, and its first tokens where the engine told them."""

    text: str
    finish: str | None = None
    positions: tuple[Position, ...] = ()


def judge_answer(body: Any) -> JudgeAnswer | None:
    """Read the decoded JSON of an answer; `None`: it is none. Raises nothing."""
    choice = _first(_member(body, "choices"))
    if not isinstance(choice, Mapping):
        return None
    text = choice.get("text", _member(choice.get("message"), "content"))
    if text is None and isinstance(choice.get("message"), Mapping):
        text = ""  # a chat answer without content
    if not isinstance(text, str):
        return None
    finish = choice.get("finish_reason")
    logprobs = choice.get("logprobs")
    positions = tuple(_positions(logprobs)) if isinstance(logprobs, Mapping) else ()
    return JudgeAnswer(text, finish if isinstance(finish, str) else None, positions)


def _positions(logprobs: Mapping[str, Any]) -> Iterator[Position]:
    content = logprobs.get("content")
    if isinstance(content, list):
        # Chat answers everywhere, and raw completions of llama.cpp.
        for item in content[:_POSITIONS]:
            token = _member(item, "token")
            if isinstance(token, str):
                listed = _member(item, "top_logprobs")
                pairs = [(_member(one, "token"), _member(one, "logprob")) for one in listed or ()]
                yield Position(token, _chances([*pairs, (token, _member(item, "logprob"))]))
        return
    tokens, tops = logprobs.get("tokens"), logprobs.get("top_logprobs")
    own = logprobs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(tops, list):
        return
    # Raw completions of vLLM, SGLang and others.
    for index, token in enumerate(tokens[: min(_POSITIONS, len(tops))]):
        top = tops[index]
        if isinstance(token, str) and isinstance(top, Mapping):
            mine = own[index] if isinstance(own, list) and index < len(own) else None
            yield Position(token, _chances([*top.items(), (token, mine)]))


def _chances(pairs: list[tuple[Any, Any]]) -> dict[str, float]:
    return {
        token: min(float(logprob), 0.0)
        for token, logprob in pairs
        if isinstance(token, str)
        and isinstance(logprob, int | float)
        and not isinstance(logprob, bool)
        and math.isfinite(logprob)
    }


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None
