"""Whatever gateways say, in whatever order."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from llmgw.core.demand import GIVE_UP_S, ModelLoad, Supply, next_scale
from llmgw.testing.factories import make_model

loads = st.none() | st.builds(
    ModelLoad,
    held=st.integers(0, 50),
    in_flight=st.integers(0, 50),
    arrivals=st.integers(0, 50),
    oldest_wait_s=st.none() | st.floats(0, 100),
)
supplies = st.builds(Supply, existing=st.integers(0, 9), ready=st.integers(0, 9), slots=st.none() | st.integers(1, 8))
steps = st.lists(st.tuples(st.floats(0.1, 700), loads, supplies), min_size=1, max_size=30)
models = st.builds(
    lambda least, more, idle_s: replace(make_model(min=least, max=max(1, least + more)), idle_s=idle_s),
    st.integers(0, 4),
    st.integers(0, 6),
    st.none() | st.floats(1, 100),
)


def walk(model, steps):
    scale, now = None, 0.0
    for seconds, load, supply in steps:
        now += seconds
        before, scale = scale, next_scale(scale, model, load, supply, now=now)
        yield before, load, supply, scale, now


@given(models, steps)
def test_what_is_wanted_lies_within_minimum_and_maximum(model, steps):
    for *_, scale, _ in walk(model, steps):
        assert model.min <= scale.wanted <= model.max


@given(models, steps)
def test_it_never_falls_while_somebody_asks_or_nothing_is_known(model, steps):
    for before, load, _, scale, _ in walk(model, steps):
        if before is not None and (load is None or load.held or load.in_flight):
            assert scale.wanted >= before.wanted


@given(models, steps)
def test_it_falls_only_for_a_model_that_asks_for_it_or_for_what_never_ran(model, steps):
    for before, _, supply, scale, now in walk(model, steps):
        if before is None or scale.wanted >= before.wanted:
            continue
        idle = model.idle_s is not None and now - scale.asked_at >= model.idle_s
        never_ran = now - scale.asked_at >= GIVE_UP_S and scale.wanted >= min(supply.existing, model.max)
        assert idle or never_ran


@given(models, steps)
def test_whoever_is_held_has_a_replica_wanted(model, steps):
    for _, load, _, scale, _ in walk(model, steps):
        if load is not None and load.held:
            assert scale.wanted >= 1


@given(models, steps, loads, supplies)
def test_deciding_again_in_the_same_moment_changes_nothing(model, steps, load, supply):
    *_, (_, _, _, scale, now) = walk(model, steps)
    once = next_scale(scale, model, load, supply, now=now)
    assert next_scale(once, model, load, supply, now=now).wanted == once.wanted
