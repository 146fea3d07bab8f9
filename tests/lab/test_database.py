"""The database in trouble: nothing acknowledged is lost, inference goes on, and `ctl status` names what is wrong."""

import itertools
import os
import signal
from pathlib import Path

import pytest

from llmgw.testing.lab.laboratory import HOSTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Watch:
    """What clients see meanwhile: keys made by the floating address, and answers through each host's gateway."""

    def __init__(self, lab, name, *, gateways=HOSTS):
        self.lab, self.name = lab, name
        self.acknowledged = []
        numbers = itertools.count()

        def make_key():
            wanted = f"{name}-{next(numbers)}"
            lab.direct_api().post("/api/v1/keys", {"name": wanted})
            self.acknowledged.append(wanted)

        self.writing = lab.client.loop(make_key)
        self.asking = {host: lab.client.loop(lab.chat(host, stream=host == gateways[0])) for host in gateways}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for loop in (self.writing, *self.asking.values()):
            loop.stop()

    def check(self):
        """Nothing acknowledged is lost, nothing is there twice, and no answer failed."""
        self.__exit__()
        names = [key["name"] for key in self.lab.api().get("/api/v1/keys")["keys"]]
        mine = [name for name in names if name.startswith(f"{self.name}-")]
        assert set(self.acknowledged) - set(mine) == set()
        assert len(mine) == len(set(mine))
        failed = {host: [str(error) for error in loop.errors] for host, loop in self.asking.items() if loop.errors}
        assert failed == {}
        answers = sum(loop.done for loop in self.asking.values())
        print(  # noqa: T201 (figures for people)
            f"{self.name}: {len(self.acknowledged)} writes acknowledged, longest pause {self.writing.gap_s:.1f} s; "
            f"{answers} answers, none failed"
        )


def other_than(*hosts):
    return next(host for host in HOSTS if host not in hosts)


def postmaster(lab, host):
    return int((lab.folder / host / "postgres" / "postmaster.pid").read_text().split()[0])


def test_a_switchover_loses_nothing(lab):
    primary = lab.database.leader()
    with Watch(lab, "switchover") as watch:
        lab.wait_for("writes", lambda: len(watch.acknowledged) > 3)
        lab.database.switch_over()
        lab.wait_for("another primary", lambda: lab.database.roles().get(primary) not in (None, "leader"))
        before = len(watch.acknowledged)
        lab.wait_for("writes again", lambda: len(watch.acknowledged) > before + 3)
        watch.check()


def test_a_postmaster_that_is_killed_loses_nothing(lab):
    with Watch(lab, "postmaster") as watch:
        lab.wait_for("writes", lambda: len(watch.acknowledged) > 3)
        os.kill(postmaster(lab, lab.database.leader()), signal.SIGKILL)
        lab.wait_for("trouble", lambda: lab.summary().get("store_problem") or lab.summary().get("store_error"))
        before = len(watch.acknowledged)
        lab.wait_for("writes again", lambda: len(watch.acknowledged) > before + 3)
        watch.check()


def test_a_primary_whose_machine_is_unplugged_loses_nothing(lab):
    primary = lab.database.leader()
    rest = tuple(host for host in HOSTS if host != primary)
    with Watch(lab, "unplugged", gateways=rest) as watch:
        lab.wait_for("writes", lambda: len(watch.acknowledged) > 3)
        lab.network.unplug(primary)
        seen = other_than(primary)
        lab.wait_for("the words", lambda: f"{primary}: Patroni does not answer" in lab.status(seen))
        before = len(watch.acknowledged)
        lab.wait_for("writes again", lambda: len(watch.acknowledged) > before + 3)
        assert f"{primary}  not answering" in lab.status(seen)
        watch.check()
    lab.network.plug(primary)


def test_a_frozen_patroni_makes_two_primaries_that_are_named_and_nothing_is_lost(lab):
    primary = lab.database.leader()
    with Watch(lab, "frozen") as watch:
        lab.wait_for("writes", lambda: len(watch.acknowledged) > 3)
        lab.database.patroni[primary].freeze()
        alone = f"{primary}: Patroni does not answer while its PostgreSQL is primary"
        lab.wait_for("the first words", lambda: alone in lab.status(other_than(primary)))
        lab.wait_for("two primaries", lambda: "two primaries" in lab.status(other_than(primary)))
        assert f"{primary}: a stale primary" in lab.status(other_than(primary))
        before = len(watch.acknowledged)
        lab.wait_for("writes again", lambda: len(watch.acknowledged) > before + 3)
        watch.check()
        lab.database.patroni[primary].thaw()


def test_the_whole_store_away_for_half_a_minute_touches_no_node_and_no_engine(lab):
    replicas = lab.api().get("/api/v1/replicas")["replicas"]
    frozen = [Path(f"/proc/{postmaster(lab, host)}") for host in HOSTS]
    leader = lab.leader()
    with Watch(lab, "away") as watch:
        lab.wait_for("writes", lambda: len(watch.acknowledged) > 3)
        lab.database.freeze_all()
        lab.wait_for("the words", lambda: "store          away" in lab.status(leader), seconds=30)
        lab.wait_for("a refusal", lambda: watch.writing.errors, seconds=30)
        lab.pause(30.0)
        lab.database.thaw_all()
        before = len(watch.acknowledged)
        lab.wait_for("writes again", lambda: len(watch.acknowledged) > before + 3)
        watch.check()
    assert all(path.exists() for path in frozen)
    lab.settle()
    after = lab.api().get("/api/v1/replicas")["replicas"]
    assert [(one["id"], one["state"]) for one in after] == [(one["id"], one["state"]) for one in replicas]
    events = lab.api().get("/api/v1/events?limit=200")["events"]
    assert not [event for event in events if event["kind"] == "node.lost"]
