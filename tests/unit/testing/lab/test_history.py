"""The checker must find each kind of loss, or it proves nothing."""

import pytest

from llmgw.testing.lab.history import History, Lead, Outcome, obeyed_faults
from llmgw.testing.obeyed import Obeyed


def history(**writes):
    made = History()
    for name, outcome in writes.items():
        made.wrote(name, outcome)
    return made


def test_what_was_acknowledged_is_there_and_what_is_unknown_may_be():
    made = history(a=Outcome.ACKNOWLEDGED, b=Outcome.UNKNOWN, c=Outcome.UNKNOWN, d=Outcome.REFUSED)
    assert made.faults(["a", "b"]) == []
    assert (made.count(Outcome.ACKNOWLEDGED), made.count(Outcome.UNKNOWN)) == (1, 2)


@pytest.mark.parametrize(
    ("outcome", "present", "fault"),
    [
        (Outcome.ACKNOWLEDGED, [], "a was acknowledged and is gone"),
        (Outcome.REFUSED, ["a"], "a was refused and is there"),
        (Outcome.UNKNOWN, ["a", "a"], "a is there 2 times"),
        (Outcome.ACKNOWLEDGED, ["a", "z"], "z is there and nobody wrote it"),
    ],
)
def test_each_kind_of_loss_is_found(outcome, present, fault):
    assert history(a=outcome).faults(present) == [fault]


def test_leaders_one_after_the_other_with_growing_epochs_are_well():
    made = History()
    for lead in (Lead("cp1", 1, 0.0, 0.1), Lead("cp1", 1, 1.0, 1.1), Lead("cp2", 2, 2.0, 2.1)):
        made.led(lead)
    assert made.faults([]) == []


def test_an_answer_that_was_on_its_way_while_the_next_one_took_over_is_no_fault():
    made = History()
    made.led(Lead("cp2", 2, 2.0, 2.1))
    made.led(Lead("cp1", 1, 2.05, 2.3))
    assert made.faults([]) == []


def test_an_epoch_that_goes_back_or_has_two_holders_is_found():
    made = History()
    for lead in (Lead("cp2", 2, 2.0, 2.1), Lead("cp1", 1, 3.0, 3.1), Lead("cp3", 2, 4.0, 4.1)):
        made.led(lead)
    assert made.faults([]) == ["cp1 led with epoch 1 after cp2 with 2", "epoch 2 was held by cp2 and by cp3"]


def noted(node, epoch, holder, refused=None):
    return Obeyed(node=node, epoch=epoch, holder=holder, refused=refused)


def test_nodes_that_refuse_the_second_holder_of_an_epoch_and_obey_a_higher_one_are_well():
    rows = [noted("a", 4, "x"), noted("b", 4, "x"), noted("a", 4, "y", "of another"), noted("a", 5, "y")]
    assert obeyed_faults([*rows, noted("b", 5, "y")]) == []


def test_an_epoch_obeyed_from_two_holders_or_after_a_higher_one_is_found():
    rows = [noted("a", 4, "x"), noted("b", 4, "y"), noted("a", 5, "x"), noted("a", 4, "x")]
    assert obeyed_faults(rows) == ["epoch 4 was obeyed from x by a, from y by b", "a obeyed epoch 4 after 5"]
