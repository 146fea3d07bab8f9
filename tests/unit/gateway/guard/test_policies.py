"""Policies of the view in a worker."""

from llmgw.gateway.guard.policies import LivePolicies
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.guard.policy import Attachment
from llmgw.testing.gateway_room import policies_of
from llmgw.testing.guard_policies import policy


def test_rules_are_those_of_the_last_section_and_of_nobody_else():
    live = LivePolicies()
    assert live.rules("default", "lk_a", "m", ()) is None
    live.take(policies_of(policy("p", attach=Attachment(keys=("lk_a",))), version=7))
    assert [one.name for one in live.rules("default", "lk_a", "m", ()).rules] == ["p/r"]
    assert live.rules("default", "lk_b", "m", ()) is None
    assert (live.version, live.judges) == (7, ("guard",))
    assert live.family("guard") is JudgeFamily.LLAMA_GUARD_3_1B
    live.take(policies_of(version=8))
    assert live.rules("default", "lk_a", "m", ()) is None


def test_quarantine_outlives_a_new_section():
    live = LivePolicies()
    live.take_quarantine({"guard": "is odd"}, ("r1",))
    live.take(policies_of(policy("p")))
    assert live.quarantined("guard") == "is odd"
    assert live.sick() == {"r1"}
