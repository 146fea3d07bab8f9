"""Charts of an hour, as geometry: 1000 wide, 100 high, drawn by the page as SVG. Pure."""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum

from llmgw.schema.history import History, Series, SeriesName
from llmgw.schema.value import Value

HOUR_S = 3600
WIDTH = 1000
HEIGHT = 100
_BAND_S = 60
_FRESH_S = 60
_ROW_S = 300
_COLOURS = 6


class Unit(StrEnum):
    """How a chart's values are written."""

    PERCENT = "percent"
    BYTES = "bytes"
    NUMBER = "number"


class Line(Value, frozen=True, kw_only=True):
    """One series."""

    label: str
    colour: int
    path: str
    """SVG path; a gap in it is a time of which nothing is known."""
    last: float | None
    """The value of the last minute."""


class Reading(Value, frozen=True, kw_only=True):
    """All series at one time."""

    at: datetime
    x: int
    values: tuple[float | None, ...]


class Chart(Value, frozen=True, kw_only=True):
    """One chart; without lines nothing is known."""

    id: str
    title: str
    unit: Unit
    top: float
    lines: tuple[Line, ...]
    bands: tuple[Reading, ...]
    """By minute, to point at."""
    rows: tuple[Reading, ...]
    """Each five minutes, to read."""


_CHARTS = (
    (SeriesName.CPU_PERCENT, "CPU", Unit.PERCENT),
    (SeriesName.MEMORY_USED_BYTES, "RAM", Unit.BYTES),
    (SeriesName.LOAD1, "Load (1 min)", Unit.NUMBER),
    (SeriesName.MODEL_CORES, "Cores busy by model", Unit.NUMBER),
    (SeriesName.MODEL_MEMORY_BYTES, "Memory by model", Unit.BYTES),
    (SeriesName.QUEUE_DEPTH, "Requests waiting by model", Unit.NUMBER),
)


def charts(history: History, *, now: float, memory_bytes: int | None) -> tuple[Chart, ...]:
    """Draw a node's hour that ends `now` (Unix seconds). `memory_bytes` is the node's total, the top of its chart."""
    tops = {SeriesName.CPU_PERCENT: 100.0, SeriesName.MEMORY_USED_BYTES: float(memory_bytes or 0)}
    return tuple(
        _chart(
            name,
            title,
            unit,
            [series for series in history.series if series.name is name],
            now=now,
            step_s=history.step_s,
            least_top=tops.get(name, 0.0),
        )
        for name, title, unit in _CHARTS
    )


def _chart(
    name: SeriesName,
    title: str,
    unit: Unit,
    found: Sequence[Series],
    *,
    now: float,
    step_s: int,
    least_top: float,
) -> Chart:
    begin = now - HOUR_S
    highest = max((value for one in found for _, value in one.points if value is not None), default=0.0)
    top = max(least_top, _round_up(highest, unit))
    return Chart(
        id=name.value.replace("_", "-"),
        title=title,
        unit=unit,
        top=top,
        lines=tuple(_line(one, number, begin=begin, step_s=step_s, top=top) for number, one in enumerate(found)),
        bands=tuple(_readings(found, begin=begin, every_s=_BAND_S)),
        rows=tuple(reversed(tuple(_readings(found, begin=begin, every_s=_ROW_S)))),
    )


def _line(series: Series, number: int, *, begin: float, step_s: int, top: float) -> Line:
    return Line(
        label=series.labels.get("model", ""),
        colour=number % _COLOURS,
        path=" ".join(_segments(series, begin=begin, step_s=step_s, top=top)),
        last=_last(series, begin + HOUR_S),
    )


def _last(series: Series, now: float) -> float | None:
    """Give the newest value; one older than a minute is not of now. The newest slot of the grid may be empty yet."""
    recent = (value for at, value in reversed(series.points) if value is not None and at >= now - _FRESH_S)
    return next(recent, None)


def _segments(series: Series, *, begin: float, step_s: int, top: float) -> Iterator[str]:
    before: float | None = None
    for at, value in series.points:
        if value is None or at < begin:
            before = None
            continue
        x, y = (at - begin) / HOUR_S * WIDTH, HEIGHT - value / top * HEIGHT
        joined = before is not None and at - before <= 1.5 * step_s
        # A point alone is a line of no length, which round ends make a dot.
        yield f"L{x:.1f} {y:.1f}" if joined else f"M{x:.1f} {y:.1f}h0"
        before = at


def _readings(found: Sequence[Series], *, begin: float, every_s: int) -> Iterator[Reading]:
    """Give the last known value of each series in each stretch of time that has any."""
    stretches = [_by_stretch(one, begin, every_s) for one in found]
    for number in range(HOUR_S // every_s):
        values = tuple(stretch.get(number) for stretch in stretches)
        if any(value is not None for value in values):
            at = datetime.fromtimestamp(begin + (number + 1) * every_s, UTC)
            yield Reading(at=at, x=round(number * every_s / HOUR_S * WIDTH), values=values)


def _by_stretch(series: Series, begin: float, every_s: int) -> dict[int, float]:
    known = ((at, value) for at, value in series.points if value is not None and at >= begin)
    return {int((at - begin) // every_s): value for at, value in known}


def _round_up(highest: float, unit: Unit) -> float:
    """Give a round number above: 1, 2 or 5 and zeros, for bytes a power of two."""
    if highest <= 0:
        return 1.0
    if unit is Unit.BYTES:
        return float(2 ** math.ceil(math.log2(highest)))
    power = 10 ** math.floor(math.log10(highest))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= highest))
