import msgspec
import pytest

from llmgw.engines.progress import Progress, read_progress

METRICS = """# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 25
llamacpp:tokens_predicted_total 1.5e+02
llamacpp:n_decode_total 7
llamacpp:requests_processing 1
llamacpp:requests_deferred 2
llamacpp:n_busy_slots_per_decode 1.0
"""


def test_counters_are_read_from_the_metrics():
    assert read_progress(METRICS) == Progress(decodes=7, generated_tokens=150, prompt_tokens=25, working=1, waiting=2)


@pytest.mark.parametrize(
    "text", ["", "404", METRICS.replace("n_decode_total", "n_other"), METRICS.replace(" 7", " nan"), METRICS[:200]]
)
def test_metrics_without_all_counters_are_no_progress(text):
    assert read_progress(text) is None


def test_an_engine_with_open_requests_that_computes_nothing_is_stuck():
    stuck = Progress(decodes=7, generated_tokens=1, prompt_tokens=1, working=1, waiting=0)
    assert not stuck.moved_since(stuck)
    assert msgspec.structs.replace(stuck, decodes=8).moved_since(stuck)


def test_an_engine_that_was_idle_at_either_end_is_not_stuck():
    busy = Progress(decodes=7, generated_tokens=1, prompt_tokens=1, working=0, waiting=1)
    idle = msgspec.structs.replace(busy, waiting=0)
    assert idle.moved_since(busy)
    assert busy.moved_since(idle)
    assert not busy.moved_since(busy)
