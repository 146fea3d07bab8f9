import pytest

from llmgw.agent.liveness import GAP_S, STOPPED_S, STUCK_S, Health, Look, Watch, judge
from llmgw.engines.progress import Progress

STEP_S = 2.5


def progress(decodes=100, working=0, waiting=0):
    return Progress(decodes=decodes, generated_tokens=1, prompt_tokens=1, working=working, waiting=waiting)


class Engine:
    """Plays looks at an engine, 2.5 s apart, until it must be ended."""

    def __init__(self):
        self.watch = Watch()
        self.at = 1000.0
        self.cpu_s = 5.0

    def look(self, *, cores=0.0, health=Health.ANSWERED, stopped=False, progress=progress(), step_s=STEP_S):  # noqa: B008
        self.at += step_s
        self.cpu_s += cores * step_s
        look = Look(at=self.at, stopped=stopped, health=health, cpu_s=self.cpu_s, progress=progress)
        self.watch, cause = judge(self.watch, look)
        return cause

    def looks(self, for_s, **kinds):
        end = self.at + for_s
        while self.at < end:
            cause = self.look(**kinds)
            if cause is not None:
                return cause
        return None


@pytest.fixture
def engine():
    engine = Engine()
    assert engine.look() is None
    return engine


def test_an_idle_engine_lives_for_ever(engine):
    assert engine.looks(3600) is None


def test_an_engine_that_decodes_lives_even_when_it_answers_slowly(engine):
    for step in range(200):
        health = Health.SILENT if step % 3 else Health.ANSWERED
        assert engine.look(progress=progress(decodes=100 + step, working=2), health=health, cores=0.5) is None


def test_a_busy_engine_that_answers_nothing_is_not_dead(engine):
    assert engine.looks(3600, health=Health.SILENT, progress=None, cores=1.0) is None


def test_a_long_prompt_without_a_counted_step_is_work_while_the_processor_is_used(engine):
    assert engine.looks(600, progress=progress(working=1), cores=0.9) is None


def test_an_engine_that_answers_health_but_computes_nothing_for_its_requests_is_dead(engine):
    engine.look(progress=progress(working=3, waiting=1))
    started = engine.at
    cause = engine.looks(600, progress=progress(working=3, waiting=1), cores=0.005)
    assert cause is not None
    assert cause.startswith("the engine did not work on its open requests (4) for ")
    assert STUCK_S <= engine.at - started <= STUCK_S + STEP_S


def test_an_engine_whose_counters_fall_silent_without_work_is_dead_though_health_answers(engine):
    cause = engine.looks(600, progress=None)
    assert cause is not None
    assert cause.startswith("the engine did not answer and did not work for ")


def test_an_engine_that_never_tells_counters_lives_by_its_answers():
    engine = Engine()
    assert engine.looks(3600, progress=None) is None
    assert engine.looks(600, progress=None, health=Health.SILENT) is not None


def test_one_decode_starts_the_count_anew(engine):
    busy = progress(working=1)
    assert engine.looks(STUCK_S - 5, progress=busy) is None
    assert engine.look(progress=progress(decodes=101, working=1)) is None
    assert engine.looks(STUCK_S - 5, progress=progress(decodes=101, working=1)) is None


def test_requests_that_came_after_idling_have_the_full_time(engine):
    assert engine.looks(300) is None
    assert engine.looks(STUCK_S - 5, progress=progress(working=1)) is None


def test_a_process_stopped_by_a_signal_is_dead_after_a_short_while(engine):
    frozen = {"stopped": True, "health": Health.SILENT, "progress": None}
    stopped_at = engine.at
    cause = engine.looks(600, **frozen)
    assert cause is not None
    assert "stopped by a signal" in cause
    assert STOPPED_S <= engine.at - stopped_at <= STOPPED_S + STEP_S


def test_a_touch_of_a_debugger_is_no_death(engine):
    frozen = {"stopped": True, "health": Health.SILENT, "progress": None}
    assert engine.look(**frozen) is None
    assert engine.look(**frozen) is None
    assert engine.looks(60) is None


def test_a_living_process_that_no_longer_listens_is_dead_at_the_third_refusal(engine):
    refused = {"health": Health.REFUSED, "progress": None, "cores": 1.0}
    assert engine.look(**refused) is None
    assert engine.look(**refused) is None
    assert engine.look(**refused) == "the engine's process lives but no longer listens on its port"


def test_a_machine_that_slept_accuses_nobody(engine):
    busy = progress(working=1)
    assert engine.looks(STUCK_S - 5, progress=busy) is None
    assert engine.look(progress=busy, step_s=GAP_S + 3600) is None
    assert engine.looks(STUCK_S - 5, progress=busy) is None
    assert engine.looks(10, progress=busy) is not None
