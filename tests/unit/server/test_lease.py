"""The lease thread's steps, one at a time: time passes only where it would wait."""

import pytest

from llmgw.core.lease import Candidate
from llmgw.ports import PutSetting
from llmgw.schema.errors import Fenced
from llmgw.schema.lease import Fence, Standing
from llmgw.server.lease import LeaseThread
from llmgw.store.memory import MemoryStore
from llmgw.testing.clock import FakeClock


class World:
    """Two control planes over one store, on one clock."""

    def __init__(self):
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.a = self.control_plane("a")
        self.b = self.control_plane("b")

    def control_plane(self, name):
        me = Candidate(holder=f"holder-{name}", name=name, address=f"10.0.0.1:{ord(name)}")
        return LeaseThread(self.store.lease_store(), self.clock, me, pause=self.clock.advance)

    def run(self, thread, seconds):
        """Let one thread run alone; the others are as if frozen."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until and thread.turn():
            pass


@pytest.fixture
def world():
    return World()


def test_it_does_not_lead_before_it_began(world):
    assert not world.a.is_leader()
    assert world.a.fence() is None
    assert world.a.status().standing == Standing.STANDING_BY


async def test_the_fence_it_gives_is_the_one_the_store_accepts(world):
    world.run(world.a, 1)
    assert world.a.is_leader()
    assert world.a.fence() == Fence(epoch=1, holder="holder-a")
    await world.store.leader(world.a.fence()).apply([PutSetting(name="x", value="1")])


def test_it_stays_the_leader_as_long_as_it_runs(world):
    for _ in range(100):
        world.run(world.a, 1)
        assert world.a.is_leader()
    assert world.a.status().epoch == 1


async def test_frozen_it_is_followed_and_its_writes_are_refused(world):
    world.run(world.a, 1)
    old = world.store.leader(world.a.fence())
    world.run(world.b, 10)

    assert world.b.is_leader()
    assert world.b.fence() == Fence(epoch=2, holder="holder-b")
    assert not world.a.is_leader()
    assert world.a.status().standing == Standing.LAPSED
    with pytest.raises(Fenced):
        await old.apply([PutSetting(name="x", value="1")])
    world.run(world.a, 1)
    assert world.a.status().standing == Standing.STANDING_BY
    assert (world.a.status().leader_name, world.a.status().epoch) == ("b", 2)


def test_it_survives_a_store_outage_longer_than_its_lease(world):
    world.run(world.a, 1)
    world.store.away = True
    world.run(world.a, 20)
    status = world.a.status()
    assert (status.standing, status.leader_name) == (Standing.LAPSED, None)
    assert status.store_problem == "store in memory: no answer to lease_renew, it is set to be away"
    world.store.away = False
    world.run(world.a, 1)
    assert world.a.is_leader()
    assert world.a.status().epoch == 1, "nobody acted meanwhile, so it is the same term"
    assert world.a.status().store_problem is None


def test_it_survives_a_store_that_breaks_in_an_unforeseen_way(world, monkeypatch):
    world.run(world.a, 1)
    monkeypatch.setattr(world.a._store, "renew", lambda row: 1 / 0)
    world.run(world.a, 20)
    assert not world.a.is_leader()
    monkeypatch.undo()
    world.run(world.a, 1)
    assert world.a.is_leader()


def test_released_it_is_followed_at_the_next_poll(world):
    world.run(world.a, 1)
    world.run(world.b, 1)
    world.a.release_and_stop()
    assert not world.a.is_leader()
    while world.a.turn():
        pass
    assert world.a.status().standing == Standing.STOPPED
    world.run(world.b, 0.8)
    assert world.b.is_leader()


def test_a_higher_epoch_is_taken_soon(world):
    world.run(world.a, 1)
    world.a.raise_epoch(9)
    world.run(world.a, 0.5)
    assert world.a.fence() == Fence(epoch=9, holder="holder-a")


def test_listeners_hear_of_each_change_once_and_a_broken_one_harms_nobody(world):
    heard = []
    world.a.on_change(lambda: 1 / 0)
    world.a.on_change(lambda: heard.append((world.a.status().standing, world.a.status().epoch)))
    world.run(world.a, 5)
    world.a.raise_epoch(4)
    world.run(world.a, 5)
    world.store.away = True
    world.run(world.a, 10)
    world.store.away = False
    world.run(world.a, 5)
    world.a.release_and_stop()
    while world.a.turn():
        pass

    assert heard[0] == (Standing.STANDING_BY, None)
    assert heard[1:] == [
        (Standing.LEADING, 1),
        (Standing.LEADING, 4),
        (Standing.LAPSED, 4),
        (Standing.LEADING, 4),
        (Standing.STOPPED, 4),
    ]


def test_the_lapse_is_told_when_it_happens_not_at_the_next_call(world):
    lapsed_at = []

    def note():
        if world.a.status().standing == Standing.LAPSED:
            lapsed_at.append(world.clock.monotonic())

    world.a.on_change(note)
    world.run(world.a, 0.1)
    renewed_at = world.clock.monotonic() - world.a.status().renew_age_s
    world.store.away = True
    world.run(world.a, 8)
    assert lapsed_at == [pytest.approx(renewed_at + 5.0)]
