from llmgw.core.control_planes import control_planes
from llmgw.schema.lease import LeaseStatus, Standing
from llmgw.schema.member import Member
from llmgw.schema.summary import ControlPlaneState
from llmgw.testing.factories import NOW

LEADING, STANDING_BY, NOT_ANSWERING = ControlPlaneState


def member(number):
    return Member(
        name=f"control-{number}",
        holder=f"h{number}",
        api=f"http://10.0.0.{number}:8800",
        agents=f"10.0.0.{number}:8801",
        version="1",
        started_at=NOW,
    )


def states(lease, *, answering=("h2", "h3"), this="h1"):
    found = control_planes([member(3), member(1), member(2)], answering=answering, this=this, lease=lease)
    assert [one.name for one in found] == ["control-1", "control-2", "control-3"]
    assert [one.this for one in found] == [f"h{number}" == this for number in (1, 2, 3)]
    return [one.state for one in found]


def lease(holder, *, known=True):
    return LeaseStatus(standing=Standing.STANDING_BY, holder=holder, leader_name="control" if known else None)


def test_who_holds_the_lease_leads_and_the_others_stand_by():
    assert states(lease("h2")) == [STANDING_BY, LEADING, STANDING_BY]
    assert states(lease("h1")) == [LEADING, STANDING_BY, STANDING_BY]


def test_one_that_does_not_answer_is_shown_so_also_while_the_row_still_names_it():
    assert states(lease("h2"), answering=["h3"]) == [STANDING_BY, NOT_ANSWERING, STANDING_BY]


def test_nobody_leads_while_a_lapsed_lease_is_nobodys():
    assert states(lease("h1", known=False)) == [STANDING_BY, STANDING_BY, STANDING_BY]


def test_the_one_that_is_asked_answers_by_being_asked():
    assert states(lease("h2"), answering=[], this="h1") == [STANDING_BY, NOT_ANSWERING, NOT_ANSWERING]
