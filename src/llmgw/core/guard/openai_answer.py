"""Texts of OpenAI answers, plain and in chunks: the same channels for both, and whatever else holds text is one too."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

Body = Mapping[str, Any]


class AnswerChannel(NamedTuple):
    """One text of an answer, which grows with each chunk: a choice and the place in it."""

    choice: int
    place: str
    """`content`, `reasoning_content`, `tool_calls[0].function.arguments`, `text` …"""


class AnswerPiece(NamedTuple):
    """A part of a channel's text."""

    channel: AnswerChannel
    text: str


_QUIET = frozenset({"role", "type", "id", "index", "finish_reason", "stop_reason"})
"""Members that are no text of the model."""
_BODIES = ("delta", "message")
_NO_TEXT = frozenset({"logprobs", "usage"})
"""Members of a choice that only repeat its text: they go out with it, or not at all."""


def pieces(body: Body) -> list[AnswerPiece]:
    """Give all texts of a chunk or of a plain answer, in order; empty ones left out."""
    return [piece for choice in _choices(body) for piece in _pieces(choice) if piece.text]


def with_texts(body: Body, text: Callable[[AnswerPiece], str]) -> dict[str, Any]:
    """Give the chunk or answer with each of its texts replaced by what `text` gives for it.

    Where one changes, the probabilities of that choice's tokens are left out: they hold the text itself.
    """
    return {
        **body,
        "choices": [_rewritten(choice, text) if isinstance(choice, dict) else choice for choice in _list(body)],
    }


def _choices(body: Body) -> Iterator[dict[str, Any]]:
    return (choice for choice in _list(body) if isinstance(choice, dict))


def _list(body: Body) -> list[Any]:
    choices = body.get("choices")
    return choices if isinstance(choices, list) else []


def _pieces(choice: Mapping[str, Any]) -> Iterator[AnswerPiece]:
    number = _number(choice.get("index"), 0)
    for name, value in choice.items():
        if name in _BODIES:
            yield from _walk(value, number, "")
        elif name not in _QUIET and name not in _NO_TEXT:
            yield from _walk(value, number, name)


def _walk(value: Any, choice: int, place: str) -> Iterator[AnswerPiece]:
    if isinstance(value, str):
        yield AnswerPiece(AnswerChannel(choice, place), value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in _QUIET:
                yield from _walk(inner, choice, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _walk(inner, choice, f"{place}[{_position(inner, position)}]")


def _rewritten(choice: Mapping[str, Any], text: Callable[[AnswerPiece], str]) -> dict[str, Any]:
    number = _number(choice.get("index"), 0)
    changed: dict[str, Any] = {}
    for name, value in choice.items():
        if name in _BODIES:
            changed[name] = _replaced(value, number, "", text)
        elif name in _QUIET or name in _NO_TEXT:
            changed[name] = value
        else:
            changed[name] = _replaced(value, number, name, text)
    if changed != choice and changed.get("logprobs") is not None:
        changed["logprobs"] = None
    return changed


def _replaced(value: Any, choice: int, place: str, text: Callable[[AnswerPiece], str]) -> Any:
    if isinstance(value, str):
        return text(AnswerPiece(AnswerChannel(choice, place), value)) if value else value
    if isinstance(value, dict):
        return {
            name: inner if name in _QUIET else _replaced(inner, choice, f"{place}.{name}" if place else str(name), text)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [
            _replaced(inner, choice, f"{place}[{_position(inner, position)}]", text)
            for position, inner in enumerate(value)
        ]
    return value


def _position(value: Any, position: int) -> int:
    """Name a part of a list by its own index: chunks hold one tool call each, whichever it is."""
    return _number(value.get("index"), position) if isinstance(value, dict) else position


def _number(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
