"""Server-sent events: cut into whole events wherever the network cut them, watched, and left as they are.

Only whole events leave for the client. So a stream that breaks can be ended with a well-formed error event, and the
usage frame that the client did not ask for can be taken out even when it came in pieces.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic

from llmgw.gateway.errors import error_event
from llmgw.gateway.usage import UsageMeter

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""An event that is longer is passed on in pieces: holding more for one client is not worth it."""

_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n|\Z))")
"""A line end and an empty line. A carriage return at the very end may be half of one, so it does not count yet."""

_LINE_END = re.compile(rb"\r\n|\n|\r")
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')
_DONE = re.compile(rb"(?:\A|[\r\n])data: ?\[DONE\]")
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"')
_LINE_BREAKS = b"\r\n"
_KEPT = 8
"""Last pieces of a stream that are kept to tell whether it was whole: finish reasons and the end come last."""


class EventSplitter:
    """Gives whole events, however they are cut. What it gives, put together, is what it got."""

    __slots__ = ("rest",)

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """Give the bytes of all events that are whole now, in order; the beginning of the next one is held."""
        if self.rest:
            data = self.rest + data
        if data.endswith(b"\n\n"):
            self.rest = b""
            return data
        cut = _end_of_last_event(data)
        if len(data) - cut > MAX_EVENT_BYTES:
            cut = len(data)
        self.rest = data[cut:]
        return data[:cut]


def _end_of_last_event(data: bytes) -> int:
    cut = data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
    for found in _EVENT_END.finditer(data, cut):
        cut = found.end()
    return cut


def events(whole: bytes) -> Iterator[bytes]:
    """Cut whole events apart, each with its blank line."""
    if _is_one(whole):
        yield whole
        return
    start = 0
    for found in _EVENT_END.finditer(whole):
        yield whole[start : found.end()]
        start = found.end()
    if start < len(whole):
        yield whole[start:]


def payload(event: bytes) -> bytes | None:
    """Give an event's data, its lines joined; `None` for one that has none (comments)."""
    if event.startswith(b"data: ") and event.find(b"\n") == len(event) - 2 and _is_one(event):
        return event[6:-2]
    lines = [line[5:].removeprefix(b" ") for line in _LINE_END.split(event) if line.startswith((b"data:", b"error:"))]
    if not lines:
        return None
    if event.startswith(b"error:"):  # older llama.cpp tells an error as a field of its own
        return b'{"error":' + event[6:].strip(b" " + _LINE_BREAKS) + b"}"
    return b"\n".join(lines)


def _is_one(whole: bytes) -> bool:
    """Say whether this is one event as engines mostly write them, which is cheaper to see than to search."""
    return whole.find(b"\n\n") == len(whole) - 2 and b"\r" not in whole


class StreamFilter:
    """What a stream for a client goes through: a function for `relay.forward.pipe`.

    Runs for each chunk of each stream, so it only looks for what it must act on at once. `on_first` is called at the
    first event that is no comment; `on_gap` gets the seconds between each piece after it and the one before.
    """

    __slots__ = ("_drop_usage", "_keep", "_kept", "_last", "_meter", "_on_first", "_on_gap", "_splitter", "started")

    def __init__(
        self,
        meter: UsageMeter,
        *,
        drop_usage: bool,
        on_first: Callable[[], None],
        on_gap: Callable[[float], None] | None = None,
    ) -> None:
        self._meter = meter
        self._drop_usage = drop_usage
        self._on_first = on_first
        self._on_gap = on_gap or _ignore
        self._last = 0.0
        self._splitter = EventSplitter()
        self._kept: deque[bytes] = deque(maxlen=_KEPT)
        self._keep = self._kept.append
        self.started = False

    def __call__(self, data: bytes) -> bytes:
        """Give what to send for a piece of the stream; an empty piece is its end."""
        if not data:
            return self._end()
        splitter = self._splitter
        whole = data if not splitter.rest and data.endswith(b"\n\n") else splitter.feed(data)
        if not whole:
            return b""
        if self.started:
            now = monotonic()
            self._on_gap(now - self._last)
            self._last = now
        elif whole.startswith(b"data:") or b"\ndata:" in whole:
            self.started = True
            self._last = monotonic()
            self._on_first()
        if b'"usage"' in whole and _USAGE.search(whole):
            whole = self._read_usage(whole)
        self._keep(whole)
        return whole

    @property
    def done(self) -> bool:
        """The stream's own end came."""
        return any(_DONE.search(piece) for piece in self._kept)

    @property
    def finished(self) -> bool:
        """A finish reason came: what was said is whole even if the last frame is lost."""
        return any(_FINISH.search(piece) for piece in self._kept)

    def _read_usage(self, whole: bytes) -> bytes:
        kept: list[bytes] = []
        for event in events(whole):
            if _USAGE.search(event):
                self._meter.read(payload(event) or b"")
                if self._drop_usage and _NO_CHOICES.search(event):
                    continue
            kept.append(event)
        return b"".join(kept)

    def _end(self) -> bytes:
        rest, self._splitter.rest = self._splitter.rest, b""
        if self.finished or self.done or _DONE.search(rest):
            return rest
        return error_event("the engine ended its answer before it was complete", code="upstream_error")


def _ignore(_seconds: float) -> None:
    """Take a gap that nobody counts."""
