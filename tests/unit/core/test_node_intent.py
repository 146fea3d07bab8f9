from llmgw.core.node_intent import DRAINED, drained, with_intent
from llmgw.schema.node import Intent, Reachability
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import make_node, make_replica

DRAINING = make_node(intent=Intent.DRAINING)


def test_an_intent_carries_its_reason_and_none_carries_none():
    cordoned = with_intent(make_node(), Intent.CORDONED, "bad fan")
    assert (cordoned.intent, cordoned.intent_reason) == (Intent.CORDONED, "bad fan")
    assert with_intent(cordoned, Intent.NONE, "ignored") == make_node()


def test_an_empty_draining_node_becomes_cordoned_as_drained():
    (node,) = drained([DRAINING], [make_replica(allocations=[])])
    assert (node.intent, node.intent_reason) == (Intent.CORDONED, DRAINED)


def test_a_drain_is_not_over_while_a_row_says_that_something_may_run():
    assert drained([DRAINING], [make_replica(state=ReplicaState.DRAINING)]) == ()


def test_a_silent_node_is_not_called_drained():
    for reachability in (Reachability.UNREACHABLE, Reachability.LOST):
        assert drained([make_node(intent=Intent.DRAINING, reachability=reachability)], []) == ()


def test_other_nodes_are_left_alone():
    assert drained([make_node(), make_node("n2", intent=Intent.CORDONED)], []) == ()
