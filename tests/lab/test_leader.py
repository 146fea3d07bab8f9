"""The leader stopped, killed, frozen, cut off, on real hosts: another one leads, and no answer is lost on the way."""

import pytest

from llmgw.testing.lab.clients import Clients
from llmgw.testing.lab.laboratory import HOSTS

pytestmark = pytest.mark.timeout(600)


def takeover(lab, name, trouble, *, seconds):
    """Do `trouble` to the leader under load; gives the new leader. Others' gateways must not fail a request."""
    leader = lab.leader()
    rest = tuple(host for host in HOSTS if host != leader)
    with Clients(lab, name, gateways=rest) as clients:
        lab.wait_for("writes", lambda: clients.acknowledged > 3)
        trouble(leader)
        taken_s = lab.wait_for("a new leader", lambda: lab.summary(rest[0]).get("leader") in rest, seconds=seconds)
        before = clients.acknowledged
        lab.wait_for("writes by the floating address", lambda: clients.acknowledged > before + 3)
        faults = clients.faults()
    assert faults == []
    assert clients.history.failures() == ()
    assert lab.summary(rest[0])["nodes"]["ready"] == 4
    print(f"{clients.figures()}; another one led after {taken_s:.1f} s")
    return lab.leader()


def test_a_clean_stop_hands_over_and_loses_no_answer(lab):
    old = lab.leader()
    takeover(lab, "stop", lambda leader: lab.planes.servers[leader].end(), seconds=30)
    lab.planes.servers[old].start()


@pytest.mark.slow
def test_a_leader_that_is_killed_is_replaced_and_loses_no_answer(lab):
    old = lab.leader()
    takeover(lab, "kill", lambda leader: lab.planes.servers[leader].kill(), seconds=60)
    lab.planes.servers[old].start()


@pytest.mark.slow
def test_a_leader_that_was_frozen_stands_down_once_it_thaws(lab):
    old = lab.leader()
    new = takeover(lab, "freeze", lambda leader: lab.planes.servers[leader].freeze(), seconds=60)
    lab.planes.servers[old].thaw()
    lab.wait_for("it stands by", lambda: lab.summary(old).get("leader") == new)
    events = (lab.folder / old / "server.log").read_text()
    assert "leader.stands_down" in events


@pytest.mark.slow
def test_a_leader_whose_machine_is_unplugged_is_replaced(lab):
    old = lab.leader()
    takeover(lab, "unplug", lab.network.unplug, seconds=90)
    lab.network.plug(old)


@pytest.mark.slow
def test_a_leader_that_loses_sight_of_one_standby_goes_on(lab):
    leader = lab.leader()
    other = next(host for host in HOSTS if host not in (leader, lab.database.leader()))
    epoch = lab.summary()["epoch"]
    with Clients(lab, "cut", gateways=(leader,)) as clients:
        lab.network.cut(leader, other)
        lab.pause(15.0)
        before = clients.acknowledged
        lab.wait_for("writes", lambda: clients.acknowledged > before + 3)
        lab.network.mend(leader, other)
        assert clients.faults() == []
        assert clients.history.failures() == ()
    assert (lab.leader(), lab.summary()["epoch"]) == (leader, epoch)


@pytest.mark.slow
def test_a_leader_that_alone_is_cut_off_from_the_nodes_hands_over_and_not_back(lab):
    old = lab.leader()
    lost = lab.events("node.lost")
    new = takeover(lab, "cut-off", lambda leader: lab.network.cut(leader, "nodes"), seconds=90)
    assert "leader.hands_over" in (lab.folder / old / "server.log").read_text()
    (told, *_) = lab.events("leader.hands_over")
    assert f"{old} hands the lead over to" in told["message"]
    # It reaches the store and its peers all the while, and leaves the lead where it is.
    lab.pause(20.0)
    lab.network.mend(old, "nodes")
    lab.pause(10.0)
    assert lab.leader() == new
    assert lab.events("node.lost") == lost
