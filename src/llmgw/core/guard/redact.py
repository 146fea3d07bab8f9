"""Redaction: found places are replaced, the text around them stays as it is."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice

from llmgw.schema.guard.verdict import Span


def redacted(text: str, spans: Iterable[Span], replacement: str | None = None) -> str:
    """Replace each place by `replacement`, or by its kind in brackets. Places that overlap become one."""
    return rewritten(text, 0, merged(edits(spans, replacement)))


def merged(spans: Iterable[Span]) -> list[Span]:
    """Give the places in order, those that overlap as one, named as the first of them."""
    found: list[Span] = []
    for one in sorted(spans, key=lambda span: (span.start, -span.end)):
        span = one
        if found and span.start < found[-1].end:
            last = found.pop()
            span = Span(start=last.start, end=max(last.end, span.end), kind=last.kind)
        found.append(span)
    return found


def edits(spans: Iterable[Span], replacement: str | None = None) -> tuple[Span, ...]:
    """Give the places with what is to stand there as their kind."""
    return tuple(
        Span(start=span.start, end=span.end, kind=f"[{span.kind}]" if replacement is None else replacement)
        for span in spans
    )


def rewritten(piece: str, at: int, edits: Sequence[Span]) -> str:
    """Give a piece of a text, that begins at `at`, after its edits: what stands for a place comes where it begins.

    `edits` are merged. A text of many pieces and many edits is not looked through for each.
    """
    parts: list[str] = []
    done, end = at, at + len(piece)
    for edit in islice(edits, bisect_right(edits, at, key=lambda one: one.end), None):
        if edit.start >= end:
            break
        parts.append(piece[done - at : max(edit.start, done) - at])
        if edit.start >= at:
            parts.append(edit.kind)
        done = min(edit.end, end)
    return "".join((*parts, piece[done - at :]))


def shifted(spans: Iterable[Span], by: int) -> tuple[Span, ...]:
    """Move places: from a window of a text to the text."""
    return tuple(Span(start=span.start + by, end=span.end + by, kind=span.kind) for span in spans)
