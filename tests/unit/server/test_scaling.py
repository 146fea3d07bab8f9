from msgspec.structs import replace

from llmgw.core.demand import ModelLoad
from llmgw.ports import FleetRows
from llmgw.schema.replica import ReplicaState
from llmgw.server.scaling import Scaling
from llmgw.testing.factories import make_model, make_replica

HELD = {"demo": ModelLoad(held=1, arrivals=1)}


def rows(*replicas, **fields):
    return FleetRows(models=(make_model(**fields), make_model("fixed", min=2)), replicas=replicas)


def test_only_models_that_may_have_more_than_their_minimum_are_scaled():
    assert Scaling().look(rows(min=0, max=1), {}, now=0.0) == {"demo": 0}


def test_demand_is_wanted_at_once_and_remembered():
    scaling = Scaling()
    assert scaling.look(rows(min=0, max=1), HELD, now=0.0) == {"demo": 1}
    assert scaling.look(rows(min=0, max=1), {}, now=100.0) == {"demo": 1}


def test_what_runs_when_a_term_begins_is_wanted_and_what_is_being_stopped_is_not():
    going = make_replica("r2", state=ReplicaState.DRAINING)
    assert Scaling().look(rows(make_replica("r1"), going, min=0, max=4), {}, now=0.0) == {"demo": 1}


def test_a_change_that_rolls_does_not_count_old_and_new_replicas_twice():
    old, new = make_replica("r1"), replace(make_replica("r2"), revision=2)
    assert Scaling().look(rows(old, new, min=0, max=4, revision=2), None, now=0.0) == {"demo": 1}


def test_a_removed_model_is_forgotten():
    scaling = Scaling()
    scaling.look(rows(min=0, max=1), HELD, now=0.0)
    assert scaling.look(FleetRows(), HELD, now=1.0) == {}
    assert scaling.look(rows(min=0, max=1), {}, now=2.0) == {"demo": 0}
