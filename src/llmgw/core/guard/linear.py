"""Patterns whose time is linear in the text, whatever the pattern and whatever the text (RE2)."""

from collections.abc import Iterator
from typing import NamedTuple

import re2

MAX_FOUND = 1000
"""Places found in one text. Each search is linear, a thousand of them still bounded; what follows counts as one more
place, up to the end of the text."""
MAX_PATTERN = 2000
"""Characters of an operator's pattern."""
_MEMORY = 8 << 20
"""Bytes that a pattern may take for its automaton: RE2's own default."""


class Place(NamedTuple):
    """Characters `start` to `end` (exclusive) of a text; of a group of the pattern where it has one."""

    start: int
    end: int


class BadPattern(Exception):
    """The pattern cannot be used; the text says why."""


class Pattern:
    """A compiled pattern. Its first group, where it has one, is the place that counts."""

    def __init__(self, expression: str) -> None:
        """Compile. Raises `BadPattern`."""
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MEMORY
        try:
            self._regexp = re2.compile(expression, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise BadPattern(_words(error)) from error
        self._group = 1 if self._regexp.groups else 0
        if self._regexp.fullmatch("") is not None:
            raise BadPattern("is found in every text, the empty one too")

    def found(self, text: str) -> bool:
        """Say whether the text holds it."""
        return self._regexp.search(encodable(text)) is not None

    def places(self, text: str) -> Iterator[Place]:
        """Give the places where the text holds it, from left to right."""
        for count, match in enumerate(self._regexp.finditer(encodable(text))):
            start, end = match.span(self._group)
            if start < 0:  # the group took no part
                start, end = match.span()
            if count == MAX_FOUND:
                yield Place(start, len(text))
                return
            if end > start:
                yield Place(start, end)


def encodable(text: str) -> str:
    """Give a text of the same length that UTF-8 can write: lone halves of surrogate pairs become question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="replace").decode()
    return text


def _words(error: Exception) -> str:
    told = error.args[0] if error.args else "cannot be read"
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)
