import math

import pytest
from msgspec.structs import replace

from llmgw.core.patience import patience_text, spared, sparing, wait_s, waits
from llmgw.schema.node import Reachability
from llmgw.testing.factories import make_allocation, make_model, make_node, make_replica

DEFAULT_S = 300.0


def model(name, lost_after=None):
    return replace(make_model(name), lost_after=lost_after)


@pytest.mark.parametrize(("lost_after", "seconds"), [(None, DEFAULT_S), (60.0, 60.0), ("never", math.inf)])
def test_a_model_waits_as_long_as_it_says_or_as_the_server_does(lost_after, seconds):
    assert wait_s(model("m", lost_after), DEFAULT_S) == seconds


def test_only_silent_nodes_are_waited_for_and_only_by_models_that_are_there():
    silent = make_node("n1", reachability=Reachability.UNREACHABLE)
    models = [model("hasty", 60.0), model("elsewhere")]
    replicas = [
        make_replica("r1", model="hasty", allocations=[make_allocation("n1")]),
        make_replica("r2", model="elsewhere", allocations=[make_allocation("n2")]),
    ]
    assert waits([silent, make_node("n2")], models, replicas, default_s=DEFAULT_S) == {"n1": {"hasty": 60.0}}
    assert waits([make_node("n1")], models, replicas, default_s=DEFAULT_S) == {}


def test_who_was_given_up_stays_given_up_and_who_waits_longer_is_spared():
    fresh = make_node("n1", reachability=Reachability.UNREACHABLE)
    waiting = {"hasty": 60.0, "usual": 300.0, "loyal": math.inf}
    assert spared(fresh, waiting, 61.0) == ("loyal", "usual")
    lost = replace(fresh, reachability=Reachability.LOST, spared=("loyal",))
    assert spared(lost, waiting, 61.0) == ("loyal",), "usual was given up before, whatever it says now"
    assert spared(lost, {}, 61.0) == (), "a model that is gone spares nothing"


def test_nodes_that_spare_nobody_are_left_out():
    assert sparing([make_node("n1"), replace(make_node("n2"), spared=("loyal",))]) == {"n2": frozenset({"loyal"})}


@pytest.mark.parametrize(
    ("lost_after", "said"),
    [
        (None, "replaced after the server's lost_after_s"),
        (60.0, "replaced after 60 seconds of silence (lost_after)"),
        (90.5, "replaced after 90.5 seconds of silence (lost_after)"),
        ("never", "never replaced (lost_after is never)"),
    ],
)
def test_patience_is_told_in_words(lost_after, said):
    assert patience_text(lost_after) == said
