import re

from llmgw.schema.history import HistorySource, SeriesName
from llmgw.server.hour import SLOTS, STEP_S
from llmgw.server.prometheus import Line
from llmgw.server.prometheus_hour import LINE, hour_query, prometheus_hour
from llmgw.telemetry.metrics import TABLE

END = 1_800_000_000 // STEP_S * STEP_S


class Answers:
    def __init__(self, *lines):
        self.lines = lines
        self.asked = None

    async def range(self, query, *, start, end, step_s):
        self.asked = (query, start, end, step_s)
        return self.lines


def line(name, values, **labels):
    return Line(labels={LINE: name, **labels}, values=values)


async def test_the_hour_lies_on_the_grid_and_gaps_stay_gaps():
    answers = Answers(
        line("model_cores", {END: 2.0}, model="b"),
        line("model_cores", {END: 1.0}, model="a"),
        line("cpu_percent", {END - 2 * STEP_S: 40.0, END: 50.0, END + 7: 1.0}),
    )
    history = await prometheus_hour(answers, "n1", ["a", "b"], labels={}, now=END + 14.9)
    assert answers.asked[1:] == (END - 3600 + STEP_S, END, STEP_S)
    assert (history.source, history.problem) == (HistorySource.PROMETHEUS, None)
    assert [(one.name, one.labels) for one in history.series] == [
        (SeriesName.CPU_PERCENT, {}),
        (SeriesName.MODEL_CORES, {"model": "a"}),
        (SeriesName.MODEL_CORES, {"model": "b"}),
    ]
    points = history.series[0].points
    assert len(points) == SLOTS
    assert points[-3:] == ((END - 2 * STEP_S, 40.0), (END - STEP_S, None), (END, 50.0))


async def test_what_was_not_asked_for_is_left_out():
    answers = Answers(line("weather", {END: 1.0}), line("load1", {}), Line(labels={}, values={END: 1.0}))
    assert (await prometheus_hour(answers, "n1", [], labels={}, now=END)).series == ()


def test_every_metric_asked_for_is_exported():
    asked = set(re.findall(r"llmgw_\w+", hour_query("n1", ["chat"], {}))) - {LINE}
    assert len(asked) == 6
    assert asked <= {metric.name for metric in TABLE}


def test_names_cannot_break_out_of_the_query():
    query = hour_query('n"} or up{x="', ["org/m.1", 'a"b\\c|d'], {"cluster": "a"})
    assert r'{cluster="a",node="n\"} or up{x=\""}' in query
    assert r'model=~"org/m\\.1|a\"b\\\\c\\|d"' in query


def test_without_models_no_queue_is_asked_for():
    assert "queue" not in hour_query("n1", [], {})
