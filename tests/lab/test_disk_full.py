"""The disk of the database's primary is full: changes are refused in words, then another member takes over."""

import subprocess

import pytest

from llmgw.testing.lab.clients import Clients

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def is_full(error):
    """A refusal that says what is in the way and what to do."""
    return getattr(error, "code", None) == "store_full" and "on the disk of the database server" in (error.hint or "")


def log_changes(lab, primary):
    """Have the log of changes begin file after file; raises once there is no room for another one."""
    lab.database.run(primary, "SELECT pg_switch_wal(), pg_switch_wal()")
    for number in range(3):
        lab.database.run(primary, f"CREATE TABLE full_{number}(); SELECT pg_switch_wal()")


def test_a_primary_without_room_is_named_and_left_and_comes_back_once_there_is_room(lab):
    primary, leader = lab.database.leader(), lab.leader()
    replicas = lab.api().get("/api/v1/replicas")["replicas"]
    disk = lab.database.disks[primary]
    with Clients(lab, "full") as clients:
        lab.wait_for("writes", lambda: clients.acknowledged > 3)
        disk.fill()
        # Tables cannot grow. The lease, which never grows, may be renewed all the same.
        lab.wait_for("the words", lambda: "the store's disk is full" in lab.status(leader))
        lab.wait_for("a refusal", lambda: any(is_full(error) for error in clients.writing.errors))
        # The log of changes cannot grow either: the server stops itself, and its standby is promoted.
        with pytest.raises(subprocess.CalledProcessError):
            log_changes(lab, primary)
        before = clients.acknowledged
        lab.wait_for("another primary", lambda: lab.database.roles().get(primary) != "leader")
        lab.wait_for("writes again", lambda: clients.acknowledged > before + 3)
        lab.wait_for("its name", lambda: f"store          {primary}: " in lab.status(lab.leader()))
        print(lab.status(lab.leader()))
        disk.free()
        lab.settle()
        assert clients.faults() == []
        assert clients.history.failures() == ()
        print(clients.figures())
    after = lab.api().get("/api/v1/replicas")["replicas"]
    assert [(one["id"], one["state"]) for one in after] == [(one["id"], one["state"]) for one in replicas]
    events = lab.api().get("/api/v1/events?limit=200")["events"]
    assert not [event for event in events if event["kind"] == "node.lost"]
