"""The database in trouble: nothing acknowledged is lost, inference goes on, and `ctl status` names what is wrong."""

import os
import signal
from pathlib import Path

import pytest

from llmgw.testing.lab.clients import Clients
from llmgw.testing.lab.control_planes import FLOATING
from llmgw.testing.lab.laboratory import HOSTS
from llmgw.testing.lab.network import has_address

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def check(clients):
    """Nothing acknowledged is lost, nothing is there twice, and no answer failed."""
    assert clients.faults() == []
    assert clients.history.failures() == ()
    print(clients.figures())


def other_than(*hosts):
    return next(host for host in HOSTS if host not in hosts)


def postmaster(lab, host):
    return int((lab.folder / host / "postgres" / "postmaster.pid").read_text().split()[0])


def test_a_switchover_loses_nothing(lab):
    primary = lab.database.leader()
    with Clients(lab, "switchover") as clients:
        lab.wait_for("writes", lambda: clients.acknowledged > 3)
        lab.database.switch_over()
        lab.wait_for("another primary", lambda: lab.database.roles().get(primary) not in (None, "leader"))
        before = clients.acknowledged
        lab.wait_for("writes again", lambda: clients.acknowledged > before + 3)
        check(clients)


def test_a_postmaster_that_is_killed_loses_nothing(lab):
    with Clients(lab, "postmaster") as clients:
        lab.wait_for("writes", lambda: clients.acknowledged > 3)
        os.kill(postmaster(lab, lab.database.leader()), signal.SIGKILL)
        lab.wait_for("trouble", lambda: lab.summary().get("store_problem") or lab.summary().get("store_error"))
        before = clients.acknowledged
        lab.wait_for("writes again", lambda: clients.acknowledged > before + 3)
        check(clients)


def test_a_primary_whose_machine_is_unplugged_loses_nothing(lab):
    primary = lab.database.leader()
    rest = tuple(host for host in HOSTS if host != primary)
    with Clients(lab, "unplugged", gateways=rest) as clients:
        lab.wait_for("writes", lambda: clients.acknowledged > 3)
        lab.network.unplug(primary)
        seen = other_than(primary)
        lab.wait_for("the words", lambda: f"{primary}: Patroni does not answer" in lab.status(seen))
        before = clients.acknowledged
        lab.wait_for("writes again", lambda: clients.acknowledged > before + 3)
        assert f"{primary}  not answering" in lab.status(seen)
        check(clients)
    lab.network.plug(primary)


def test_a_frozen_patroni_makes_two_primaries_that_are_named_and_nothing_is_lost(lab):
    primary = lab.database.leader()
    with Clients(lab, "frozen") as clients:
        lab.wait_for("writes", lambda: clients.acknowledged > 3)
        lab.database.patroni[primary].freeze()
        alone = f"{primary}: Patroni does not answer while its PostgreSQL is primary"
        lab.wait_for("the first words", lambda: alone in lab.status(other_than(primary)))
        lab.wait_for("two primaries", lambda: "two primaries" in lab.status(other_than(primary)))
        assert f"{primary}: a stale primary" in lab.status(other_than(primary))
        before = clients.acknowledged
        lab.wait_for("writes again", lambda: clients.acknowledged > before + 3)
        check(clients)
        lab.database.patroni[primary].thaw()


def test_the_whole_store_away_for_half_a_minute_touches_no_node_and_no_engine(lab):
    replicas = lab.api().get("/api/v1/replicas")["replicas"]
    frozen = [Path(f"/proc/{postmaster(lab, host)}") for host in HOSTS]
    leader = lab.leader()
    with Clients(lab, "away") as clients:
        lab.wait_for("writes", lambda: clients.acknowledged > 3)
        lab.database.freeze_all()
        lab.wait_for("the words", lambda: "store          away" in lab.status(leader), seconds=30)
        lab.wait_for("a refusal", lambda: clients.writing.errors, seconds=30)
        lab.pause(30.0)
        assert has_address(lab.network, leader, FLOATING.address)
        lab.database.thaw_all()
        before = clients.acknowledged
        lab.wait_for("writes again", lambda: clients.acknowledged > before + 3)
        check(clients)
    assert all(path.exists() for path in frozen)
    lab.settle()
    after = lab.api().get("/api/v1/replicas")["replicas"]
    assert [(one["id"], one["state"]) for one in after] == [(one["id"], one["state"]) for one in replicas]
    events = lab.api().get("/api/v1/events?limit=200")["events"]
    assert not [event for event in events if event["kind"] == "node.lost"]
