"""Limits of size and shape, and models that may be asked."""

from collections.abc import Collection

import msgspec

from llmgw.core.guard.json_shape import MAX_DEPTH, violation
from llmgw.schema.guard.rule import Limits
from llmgw.schema.guard.verdict import Verdict, VerdictState, safe
from llmgw.schema.value import Value


class Size(Value, frozen=True, kw_only=True):
    """How large a request is."""

    characters: int
    messages: int = 0
    tools: int = 0


def input_verdict(limits: Limits, size: Size) -> Verdict:
    """Judge a request by its size."""
    bounds = (
        ("max_characters", limits.max_characters, size.characters),
        ("max_messages", limits.max_messages, size.messages),
        ("max_tools", limits.max_tools, size.tools),
    )
    for name, most, is_there in bounds:
        if most is not None and is_there > most:
            return _beyond(name, f"{is_there} are more than {name} {most}")
    return safe()


def length_verdict(limits: Limits, characters: int) -> Verdict:
    """Judge an answer, complete or not, by its length so far."""
    most = limits.max_characters
    if most is not None and characters > most:
        return _beyond("max_characters", f"{characters} are more than max_characters {most}")
    return safe()


def shape_verdict(limits: Limits, answer: str) -> Verdict:
    """Judge a complete answer by its shape."""
    if limits.json_schema is None:
        return safe()
    if not answer.strip():
        return _beyond("json_schema", "the answer is empty")
    try:
        told = violation(msgspec.json.decode(answer), limits.json_schema)
    except msgspec.DecodeError:
        told = "the answer is not JSON"
    except (RecursionError, UnicodeEncodeError):
        told = f"the answer is nested much more than {MAX_DEPTH} deep, or is no text"
    return safe() if told is None else _beyond("json_schema", told)


def model_verdict(allowed: Collection[str], models: Collection[str]) -> Verdict:
    """Judge a request by the models that may answer it."""
    if set(models) <= set(allowed):
        return safe()
    return _beyond("allow_models", "the model is none of those allowed here")


def _beyond(name: str, detail: str) -> Verdict:
    return Verdict(state=VerdictState.UNSAFE, codes=(name,), detail=detail)
