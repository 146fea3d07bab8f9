"""Redaction of a request: every text that is forwarded is rewritten, and looked at again to be sure of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from llmgw.core.guard.openai_turns import TEXT_MEMBERS, UNREADABLE
from llmgw.core.guard.redact import redacted
from llmgw.core.guard.rulebook import BoundRule
from llmgw.core.guard.turns import Conversation


def redact_body(body: Mapping[str, Any], rules: Sequence[BoundRule]) -> dict[str, Any]:
    """Give the decoded body of a request with the places replaced that `rules` find in its texts.

    What is nested too deeply stays as it is: it counts as a part that cannot be scanned.
    """
    return {name: _member(value, rules) if name in TEXT_MEMBERS else value for name, value in body.items()}


def still_found(
    body: Mapping[str, Any], rules: Sequence[BoundRule], read: Callable[[Mapping[str, Any]], Conversation]
) -> bool:
    """Say whether a redacted body still holds what its rules look for, in names of members for instance."""
    turns = read(body).turns
    return any(_found(rule, turn.text) for rule in rules for turn in turns)


def _found(rule: BoundRule, text: str) -> bool:
    # What stands for a place may look like one itself: `[email]` does not, an operator's own word might.
    return rule.scanner is not None and any(
        text[span.start : span.end] != rule.rule.replacement for span in rule.scanner.spans(text)
    )


def _member(value: Any, rules: Sequence[BoundRule]) -> Any:
    try:
        return _value(value, rules)
    except RecursionError:
        return value


def _value(value: Any, rules: Sequence[BoundRule], name: str = "") -> Any:
    if isinstance(value, str):
        return _arguments(value, rules) if name == "arguments" else _text(value, rules)
    if isinstance(value, list):
        return [_value(inner, rules) for inner in value]
    if isinstance(value, dict):
        if isinstance(kind := value.get("type"), str) and kind in UNREADABLE:
            return value  # numbers in a picture are no telephone numbers
        return {key: _value(inner, rules, key) for key, inner in value.items()}
    return value


def _arguments(text: str, rules: Sequence[BoundRule]) -> str:
    """Rewrite a tool's arguments inside their own JSON, where escapes do not hide them."""
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _text(text, rules)
    changed = _value(decoded, rules)
    return text if changed == decoded else msgspec.json.encode(changed).decode()


def _text(text: str, rules: Sequence[BoundRule]) -> str:
    for rule in rules:
        if rule.scanner is not None:
            text = redacted(text, rule.scanner.spans(text), rule.rule.replacement)
    return text
