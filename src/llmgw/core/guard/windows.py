"""Windows over a text that grows: the same for a plain answer as for a stream, wherever its chunks begin and end.

Where a window ends depends on the text up to there only, never on what follows or on how it came. Windows overlap, so
that what is no longer than the overlap stands whole in one of them.
"""

from typing import NamedTuple

SIZE = 800
"""Characters: about 200 tokens of English."""
OVERLAP = 200
"""Characters: about 50 tokens."""
_SLACK = 40
"""Characters within which a window's edge moves to the edge of a word: half words mislead judges."""


class Window(NamedTuple):
    """Characters `start` to `end` (exclusive) of a text. The `last` one ends with it."""

    number: int
    start: int
    end: int
    text: str
    last: bool = False


class Splitter:
    """Cuts a text into windows as it comes."""

    def __init__(self, size: int = SIZE, overlap: int = OVERLAP) -> None:
        if not 0 <= overlap < size // 2:
            raise ValueError(f"an overlap of {overlap} is too much for windows of {size} characters")
        self._size, self._overlap = size, overlap
        self._slack = min(_SLACK, (size - overlap) // 4)
        self._text = ""
        self._dropped = 0
        """Characters before `_text`, which no window needs any more."""
        self._number = 0
        self._start = 0
        self._covered = 0

    @property
    def next_start(self) -> int:
        """Where the next window begins: what lies before it stands in complete windows only."""
        return self._start

    @property
    def length(self) -> int:
        """Characters that came so far."""
        return self._dropped + len(self._text)

    def feed(self, text: str) -> list[Window]:
        """Take more text and give the windows that are complete by it."""
        self._text += text
        windows = []
        while self.length - self._start >= self._size:
            windows.append(self._cut())
        self._text = self._text[self._start - self._dropped :]
        self._dropped = self._start
        return windows

    def end(self) -> list[Window]:
        """Give what is left as the last window; nothing when all of it was seen."""
        if self.length <= self._covered:
            return []
        window = Window(self._number, self._start, self.length, self._between(self._start, self.length), last=True)
        self._number += 1
        self._covered = self._start = self.length
        return [window]

    def _cut(self) -> Window:
        end = self._word_end(self._start + self._size)
        window = Window(self._number, self._start, end, self._between(self._start, end))
        self._number += 1
        self._covered = end
        self._start = self._word_start(end - self._overlap)
        return window

    def _between(self, start: int, end: int) -> str:
        return self._text[start - self._dropped : end - self._dropped]

    def _word_end(self, limit: int) -> int:
        """Give the last place up to `limit` where a word ends, not far from it."""
        near = self._between(limit - self._slack, limit)
        at = max((index for index, letter in enumerate(near) if letter.isspace()), default=-1)
        return limit if at < 0 else limit - self._slack + at

    def _word_start(self, limit: int) -> int:
        """Give the last place up to `limit` before which a word ends, so that the overlap only grows."""
        near = self._between(limit - self._slack, limit)
        at = max((index for index, letter in enumerate(near) if letter.isspace()), default=-1)
        return limit if at < 0 else limit - self._slack + at


def split(text: str, size: int = SIZE, overlap: int = OVERLAP) -> list[Window]:
    """Cut a complete text into windows."""
    splitter = Splitter(size, overlap)
    return [*splitter.feed(text), *splitter.end()]
