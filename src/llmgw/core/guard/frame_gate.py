"""Frames of an answer, in order, each let out when the text in it may go out."""

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from llmgw.core.guard.answer_scan import AnswerScan
from llmgw.core.guard.redact import rewritten

Frame = TypeVar("Frame")
Channel = Hashable
"""One text of an answer: a choice's content, its reasoning, a tool call's arguments."""


class Held(NamedTuple, Generic[Frame]):
    """A frame with the place of its texts: from which character to which of each channel."""

    frame: Frame
    places: Mapping[Channel, tuple[int, int]]


class FrameGate(Generic[Frame]):
    """Holds frames until their texts are cleared. A frame without text waits for those before it only."""

    def __init__(self, scan: Callable[[Channel], AnswerScan]) -> None:
        self._scan = scan
        self._held: deque[Held[Frame]] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def put(self, frame: Frame, places: Mapping[Channel, tuple[int, int]]) -> None:
        """Take a frame whose texts were fed to their scans."""
        self._held.append(Held(frame, places))

    def free(self) -> list[Held[Frame]]:
        """Give the frames, from the oldest, that may go out now."""
        out: list[Held[Frame]] = []
        while self._held and self._clear(self._held[0]):
            out.append(self._held.popleft())
        return out

    def text(self, channel: Channel, piece: str, start: int) -> str:
        """Give what stands for a piece of a channel's text when it goes out: itself, or itself redacted."""
        return rewritten(piece, start, self._scan(channel).edits)

    def _clear(self, held: Held[Frame]) -> bool:
        return all(end <= self._scan(channel).cleared for channel, (_, end) in held.places.items())
