"""Redaction: found places are replaced, the text around them stays as it is."""

from collections.abc import Iterable

from llmgw.schema.guard.verdict import Span


def redacted(text: str, spans: Iterable[Span], replacement: str | None = None) -> str:
    """Replace each place by `replacement`, or by its kind in brackets. Places that overlap become one."""
    parts: list[str] = []
    at = 0
    for span in merged(spans):
        parts += [text[at : span.start], f"[{span.kind}]" if replacement is None else replacement]
        at = span.end
    return "".join((*parts, text[at:]))


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


def shifted(spans: Iterable[Span], by: int) -> tuple[Span, ...]:
    """Move places: from a window of a text to the text."""
    return tuple(Span(start=span.start + by, end=span.end + by, kind=span.kind) for span in spans)
