"""A database that loses acknowledged writes, the lease's epoch among them: no agent obeys two holders of one epoch."""

import json

import pytest

from llmgw.testing.lab.clients import Clients
from llmgw.testing.lab.history import obeyed_faults
from llmgw.testing.lab.laboratory import HOSTS
from llmgw.testing.lab.replication import ReplicationCut

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NODES = 4


@pytest.fixture
def asynchronous(lab):
    """The laboratory with replication that waits for nobody, as it must not be for llmgw."""
    lab.database.configure(synchronous_mode=False, maximum_lag_on_failover=2**30)
    lab.database.wait_for(
        lambda roles: list(roles.values()).count("replica") == len(HOSTS) - 1, "asynchronous standbys"
    )
    yield lab
    lab.database.configure(synchronous_mode=True, maximum_lag_on_failover=2**20)
    lab.database.wait_for(lambda roles: "sync_standby" in roles.values(), "a synchronous standby", seconds=120)


def obeying(lab, epoch):
    """Name by node whom it obeys with an epoch."""
    return {one.node: one.holder for one in lab.obeyed() if one.epoch == epoch and one.refused is None}


def has_all(lab, host):
    told = lab.summary()
    planes = told.get("control_planes", {})
    return lab.leader() == host and planes.get("floating_state") == "on the leader" and told["nodes"]["ready"] == NODES


def log(lab, host, event):
    lines = (lab.folder / host / "server.log").read_text().splitlines()
    return [line for line in map(json.loads, filter(None, lines)) if line["event"] == event]


def test_an_epoch_that_is_lost_and_given_out_again_is_obeyed_from_its_first_holder_alone(asynchronous):
    lab = asynchronous
    primary = lab.database.leader()
    second, third = (host for host in HOSTS if host != primary)
    lab.lead(primary)
    lab.wait_for("all nodes, and the address there", lambda: has_all(lab, primary))
    lost = lab.summary()["epoch"] + 1
    # The one that will lead at last knows nothing of what happens while it is away.
    lab.planes.servers[third].kill()
    with Clients(lab, "lost-epoch", gateways=(second, third)) as clients:
        lab.wait_for("writes", lambda: clients.acknowledged > 3)
        with ReplicationCut(lab.network, lab.database, primary, (second, third)):
            lab.api(primary).post("/api/v1/control-planes/step-down", {"seconds": 30})
            lab.wait_for("all nodes obey the second one", lambda: len(obeying(lab, lost)) == NODES)
            before = clients.acknowledged
            lab.wait_for("writes that no standby has", lambda: clients.acknowledged > before + 3)
            first_holder = obeying(lab, lost)
            lab.planes.servers[second].freeze()
            lab.network.unplug(primary)
            lab.database.wait_for(
                lambda roles: "leader" in [roles.get(second), roles.get(third)], "another primary", seconds=120
            )
            lab.planes.servers[third].start()
            lab.wait_for("all nodes obey the third one", lambda: len(obeying(lab, lost + 1)) == NODES)
            lab.planes.servers[second].thaw()
            lab.wait_for("the second one stands by", lambda: lab.summary(second).get("leader") == third)
            before = clients.acknowledged
            lab.wait_for("writes again", lambda: clients.acknowledged > before + 3)
        lab.network.plug(primary)
        lab.wait_for("the first one stands by", lambda: lab.summary(primary).get("leader") == third)
        clients.stop()
    given_out = [line["epoch"] for line in log(lab, third, "lease.changed") if line["standing"] == "leading"]
    assert given_out[-2:] == [lost, lost + 1], "the third one led with the very number that the second one had"
    assert [line["epoch"] for line in log(lab, third, "lease.foreign_epoch")][-1] == lost
    assert obeying(lab, lost) == first_holder
    assert len(set(first_holder.values())) == 1
    assert obeyed_faults(lab.obeyed()) == []
    assert clients.history.failures() == ()
    gone = clients.history.lost(clients.present())
    assert all(fault.endswith("was acknowledged and is gone") for fault in gone)
    print(f"{clients.figures()}; epoch {lost} was given out twice, {len(gone)} acknowledged writes lost with it")
