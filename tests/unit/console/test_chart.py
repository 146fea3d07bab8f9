import pytest

from llmgw.console.chart import HOUR_S, charts
from llmgw.schema.history import History, HistorySource, Series, SeriesName

NOW = 1_800_000_000
GIB = 1024**3


def hour(*series, step_s=30):
    return History(source=HistorySource.MEMORY, step_s=step_s, series=series)


def drawn(name, *points, memory_bytes=None, step_s=30, **labels):
    series = Series(name=name, labels=labels, points=points)
    found = charts(hour(series, step_s=step_s), now=NOW, memory_bytes=memory_bytes)
    return next(chart for chart in found if chart.id == name.value.replace("_", "-"))


def test_every_chart_is_there_and_one_without_lines_when_nothing_is_known():
    found = charts(hour(), now=NOW, memory_bytes=None)
    assert [chart.title for chart in found][:3] == ["CPU", "RAM", "Load (1 min)"]
    assert all(chart.lines == () and chart.bands == () and chart.rows == () for chart in found)


def test_a_line_runs_from_left_to_right_and_high_is_up():
    chart = drawn(SeriesName.CPU_PERCENT, (NOW - HOUR_S, 0.0), (NOW - HOUR_S + 30, 50.0), (NOW - HOUR_S + 60, 100.0))
    assert chart.lines[0].path == "M0.0 100.0h0 L8.3 50.0 L16.7 0.0"


def test_what_is_not_known_is_a_gap_and_never_zero():
    points = ((NOW - 120, 10.0), (NOW - 90, None), (NOW - 60, 10.0), (NOW, 10.0))
    path = drawn(SeriesName.CPU_PERCENT, *points).lines[0].path
    assert path.count("M") == 3
    assert "L" not in path


def test_what_is_older_than_the_hour_is_not_drawn():
    chart = drawn(SeriesName.CPU_PERCENT, (NOW - HOUR_S - 30, 99.0), (NOW - 30, 1.0))
    assert chart.lines[0].path.count("M") == 1


@pytest.mark.parametrize(("age_s", "last"), [(0, 7.0), (60, 7.0), (90, None)])
def test_the_value_of_now_is_at_most_a_minute_old(age_s, last):
    assert drawn(SeriesName.CPU_PERCENT, (NOW - age_s, 7.0)).lines[0].last == last


@pytest.mark.parametrize(
    ("name", "highest", "memory", "top"),
    [
        (SeriesName.CPU_PERCENT, 3.0, None, 100.0),
        (SeriesName.LOAD1, 3.0, None, 5.0),
        (SeriesName.LOAD1, 0.0, None, 1.0),
        (SeriesName.LOAD1, 11.0, None, 20.0),
        (SeriesName.LOAD1, 100.0, None, 100.0),
        (SeriesName.MEMORY_USED_BYTES, 3 * GIB, 16 * GIB, 16 * GIB),
        (SeriesName.MEMORY_USED_BYTES, 3 * GIB, None, 4 * GIB),
    ],
)
def test_the_top_is_a_round_number_above_or_the_whole(name, highest, memory, top):
    assert drawn(name, (NOW, highest), memory_bytes=memory).top == top


def test_lines_by_model_have_their_names_and_colours_of_their_own():
    series = [Series(name=SeriesName.MODEL_CORES, labels={"model": f"m{n}"}, points=((NOW, 1.0),)) for n in range(3)]
    chart = next(one for one in charts(hour(*series), now=NOW, memory_bytes=None) if one.id == "model-cores")
    assert [(line.label, line.colour) for line in chart.lines] == [("m0", 0), ("m1", 1), ("m2", 2)]


def test_readings_give_the_last_value_of_each_stretch_the_newest_row_first():
    chart = drawn(SeriesName.LOAD1, (NOW - 390, 1.0), (NOW - 310, 2.0), (NOW - 10, 3.0))
    assert [reading.values for reading in chart.rows] == [(3.0,), (2.0,)]
    assert chart.rows[0].at.timestamp() == NOW
    assert [reading.values for reading in chart.bands] == [(1.0,), (2.0,), (3.0,)]
