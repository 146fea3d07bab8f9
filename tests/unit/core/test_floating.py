import pytest
from msgspec.structs import replace

from llmgw.core.floating import floating_status, must_remove
from llmgw.schema.floating import FloatingSeen, FloatingState, HostWord


def host(name, *, has=False, keepalived=True):
    return HostWord(name=name, has_address=has, keepalived=keepalived)


RIGHT = FloatingSeen(
    address="10.0.0.100", leader="cp1", hosts=(host("cp1", has=True), host("cp2"), host("cp3")), answered_by="cp1"
)


def test_an_address_on_the_leader_that_answers_has_no_problem():
    status = floating_status(RIGHT)
    assert (status.state, status.hosts, status.up, status.problem) == (FloatingState.ON_LEADER, ("cp1",), True, None)


@pytest.mark.parametrize(
    ("change", "state", "said"),
    [
        (
            {"hosts": (host("cp1", has=True), host("cp2", has=True))},
            FloatingState.ON_TWO_HOSTS,
            "10.0.0.100 is on two hosts, on cp1 and cp2: restart keepalived on each that does not lead",
        ),
        (
            {"macs": 2},
            FloatingState.ON_TWO_HOSTS,
            (
                "10.0.0.100 is on two hosts, on cp1 and on a machine that is no control plane: "
                "restart keepalived on each that does not lead"
            ),
        ),
        (
            {"hosts": (host("cp1"), host("cp2")), "answered_by": None},
            FloatingState.NOWHERE,
            "10.0.0.100 is on no host: look at keepalived on cp1",
        ),
        (
            {"hosts": (host("cp1"), host("cp2")), "silent": ("cp3",)},
            FloatingState.UNKNOWN,
            "10.0.0.100 is on none of the hosts that answer; cp3 did not",
        ),
        (
            {"leader": "cp2"},
            FloatingState.ELSEWHERE,
            "10.0.0.100 is on cp1, which does not lead: look at keepalived there and on cp2",
        ),
        (
            {"hosts": (host("cp1", has=True, keepalived=False), host("cp2"))},
            FloatingState.ORPHANED,
            "10.0.0.100 is on cp1 without a keepalived: start it, or nobody takes the address away later",
        ),
        (
            {"answered_by": None},
            FloatingState.NOT_REACHABLE,
            "10.0.0.100 is on cp1, but nothing answers there as a leader: look at the network and port",
        ),
        ({"leader": None}, FloatingState.UNKNOWN, "10.0.0.100: nobody leads, so it belongs nowhere now"),
    ],
)
def test_each_wrong_place_has_its_sentence(change, state, said):
    status = floating_status(replace(RIGHT, **change))
    assert (status.state, status.problem) == (state, said)


@pytest.mark.parametrize(
    ("has", "keepalived", "leads", "removed"),
    [
        (True, False, False, True),
        (True, True, False, False),
        (True, None, False, False),
        (True, False, True, False),
        (False, False, False, False),
    ],
)
def test_only_an_orphaned_address_off_the_leader_is_removed(has, keepalived, leads, removed):
    assert must_remove(host("cp1", has=has, keepalived=keepalived), leads=leads) is removed
