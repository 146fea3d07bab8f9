import pytest
from msgspec.structs import replace

from llmgw.core.demand import (
    CROWDED_S,
    GIVE_UP_S,
    LONG_WAIT_S,
    PRESSED_S,
    ModelLoad,
    Scale,
    Supply,
    desired_replicas,
    kept,
    next_scale,
)
from llmgw.testing.factories import make_model

ON_DEMAND = make_model(min=0, max=4)
NOTHING = Supply(existing=0, ready=0, slots=4)
ONE = Supply(existing=1, ready=1, slots=4)
CALM = ModelLoad()


def run(model, *steps, before=None, every_s=1.0):
    """Decide once a second: (seconds, load, supply), …; gives what is wanted after each step."""
    scale, now, wanted = before, 100.0, []
    for seconds, load, supply in steps:
        for _ in range(max(1, round(seconds / every_s))):
            scale = next_scale(scale, model, load, supply, now=now)
            now += every_s
        wanted.append(scale.wanted)
    return wanted


def test_without_demand_the_minimum_is_wanted_and_never_more_than_the_maximum():
    assert desired_replicas(make_model(min=2, max=5)) == 2
    assert desired_replicas(make_model(min=0, max=5)) == 0
    assert desired_replicas(make_model(min=3, max=2)) == 2


def test_demand_is_kept_within_minimum_and_maximum():
    assert desired_replicas(make_model(min=2, max=5), 1) == 2
    assert desired_replicas(make_model(min=2, max=5), 4) == 4
    assert desired_replicas(make_model(min=2, max=5), 9) == 5


def test_the_first_held_request_wants_a_replica_at_once():
    assert run(ON_DEMAND, (1, CALM, NOTHING), (1, ModelLoad(held=1, arrivals=1), NOTHING)) == [0, 1]


def test_a_request_that_came_and_was_refused_between_two_looks_counts():
    assert run(ON_DEMAND, (1, CALM, NOTHING), (1, ModelLoad(arrivals=1), NOTHING)) == [0, 1]


def test_a_started_replica_stays_when_nobody_asks_any_more():
    load = ModelLoad(held=1, arrivals=1)
    assert run(ON_DEMAND, (1, load, NOTHING), (7200, replace(load, held=0), ONE)) == [1, 1]


def test_a_model_that_asks_for_it_is_unloaded_after_its_idle_time_counted_from_the_end_of_the_last_request():
    model = make_model(min=0, max=4)
    model = replace(model, idle_s=60.0)
    busy, done = ModelLoad(in_flight=1, arrivals=1), ModelLoad(arrivals=1)
    steps = (1, busy, NOTHING), (300, busy, ONE), (59, done, ONE), (1, done, ONE)
    assert run(model, *steps) == [1, 1, 1, 0]


def test_unloading_stops_at_the_minimum():
    model = replace(make_model(min=1, max=4), idle_s=60.0)
    many = ModelLoad(held=0, in_flight=40, arrivals=40)
    assert run(model, (10, many, ONE), (70, ModelLoad(arrivals=40), Supply(existing=4, ready=4, slots=4))) == [4, 1]


def test_nothing_is_unloaded_while_no_gateway_reports_nor_right_after():
    model = replace(make_model(min=0, max=4), idle_s=60.0)
    assert run(model, (1, ModelLoad(held=1, arrivals=1), NOTHING), (600, None, ONE), (59, CALM, ONE)) == [1, 1, 1]


def test_long_waits_want_one_more_replica_every_half_minute_and_no_more_while_one_starts():
    waiting = ModelLoad(held=3, in_flight=4, arrivals=7, oldest_wait_s=LONG_WAIT_S)
    starting = Supply(existing=2, ready=1, slots=4)
    two = Supply(existing=2, ready=2, slots=4)
    assert run(make_model(min=1, max=4), (PRESSED_S, waiting, ONE), (1, waiting, ONE)) == [1, 2]
    assert run(make_model(min=1, max=4), (31, waiting, ONE), (100, waiting, starting)) == [2, 2]
    assert run(make_model(min=1, max=4), (31, waiting, ONE), (31, waiting, two)) == [2, 3]


def test_a_short_wait_in_between_begins_the_half_minute_anew():
    waiting = ModelLoad(held=1, in_flight=4, arrivals=7, oldest_wait_s=LONG_WAIT_S)
    short = replace(waiting, oldest_wait_s=0.1)
    model = make_model(min=1, max=4)
    assert run(model, (29, waiting, ONE), (1, short, ONE), (29, waiting, ONE)) == [1, 1, 1]


def test_a_crowd_wants_all_it_has_work_for_after_six_seconds():
    crowd = ModelLoad(held=6, in_flight=4, arrivals=10)
    assert run(make_model(min=1, max=8), (CROWDED_S, crowd, ONE), (1, crowd, ONE)) == [1, 3]
    assert run(make_model(min=1, max=2), (10, crowd, ONE)) == [2]


def test_a_crowd_before_the_first_replica_is_ready_starts_several():
    crowd = ModelLoad(held=12, arrivals=12)
    assert run(ON_DEMAND, (1, crowd, NOTHING), (7, crowd, NOTHING)) == [1, 3]


def test_engines_with_unknown_slots_are_never_crowded():
    crowd = ModelLoad(held=100, in_flight=4, arrivals=104)
    assert run(make_model(min=1, max=8), (20, crowd, replace(ONE, slots=None))) == [1]


def test_what_could_not_be_started_is_given_up_when_nobody_asks_for_ten_minutes():
    load = ModelLoad(arrivals=1)
    assert run(ON_DEMAND, (1, CALM, NOTHING), (1, load, NOTHING), (GIVE_UP_S - 1, load, NOTHING)) == [0, 1, 1]
    assert run(ON_DEMAND, (1, CALM, NOTHING), (1, load, NOTHING), (GIVE_UP_S, load, NOTHING)) == [0, 1, 0]


def test_a_new_leader_wants_what_runs():
    assert run(ON_DEMAND, (1, None, Supply(existing=2, ready=2, slots=4))) == [2]
    assert run(ON_DEMAND, (1, ModelLoad(arrivals=70), Supply(existing=2, ready=2, slots=4))) == [2]


def test_an_operator_who_changes_the_minimum_means_the_number():
    three = Scale(wanted=3, floor=3, arrivals=0, asked_at=100.0)
    supply = Supply(existing=3, ready=3, slots=4)
    assert run(make_model(min=1, max=3), (1, CALM, supply), before=three) == [1]


@pytest.mark.parametrize("wanted", [0, 3, 9])
def test_what_is_wanted_follows_a_changed_maximum(wanted):
    before = Scale(wanted=wanted, floor=0, arrivals=0, asked_at=100.0)
    assert run(make_model(min=0, max=2), (1, CALM, ONE), before=before) == [min(wanted, 2)]


def test_what_policies_need_keeps_one_replica_whatever_demand_says():
    assert kept({"chat": 0, "idle": 0, "busy": 3}, {"idle", "busy", "fixed"}) == {
        "chat": 0,
        "idle": 1,
        "busy": 3,
        "fixed": 1,
    }
    assert desired_replicas(ON_DEMAND, kept({}, {ON_DEMAND.name})[ON_DEMAND.name]) == 1
