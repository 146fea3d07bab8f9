import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from llmgw.schema.errors import Conflict, NotFound
from llmgw.schema.lease import LeaseStatus, Standing
from llmgw.schema.member import Member
from llmgw.schema.summary import ControlPlaneState
from llmgw.schema.view import Peer
from llmgw.server.members import Directory, Members
from llmgw.store.memory import MemoryStore
from llmgw.testing.clock import FakeClock

LEADING, STANDING_BY, NOT_ANSWERING = ControlPlaneState


class Place:
    """Control planes that share a store and reach each other by their addresses, or do not."""

    def __init__(self):
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock)
        self.at = {}

    def start(self, number, *, name=None, holder=None, api=None):
        me = Member(
            name=name or f"control-{number}",
            holder=holder or f"h{number}",
            api=api or f"http://{number}",
            agents=f"{number}:8801",
            version="1",
            started_at=self.clock.now(),
        )
        self.at[me.api] = me.holder
        return Members(me=me, store=self.store, peers=self, clock=self.clock)

    async def holder_at(self, api):
        return self.at.get(api)


@pytest.fixture
def place():
    return Place()


def lease(holder="h1"):
    return LeaseStatus(standing=Standing.STANDING_BY, holder=holder, leader_name="one")


def states(members):
    return {one.name: one.state for one in members.described(lease())}


async def test_control_planes_find_each_other_through_the_store(place):
    one, two = place.start(1), place.start(2)
    await one.look()
    assert states(one) == {"control-1": LEADING}
    await two.look()
    await one.look()
    assert states(one) == states(two) == {"control-1": LEADING, "control-2": STANDING_BY}
    assert two.agent_addresses() == ("2:8801", "1:8801")
    assert Directory(Held(lease("h1")), two).leader_address() == "1:8801"


async def test_six_seconds_without_a_word_are_told_and_one_that_is_back_is_seen_at_the_next_look(place):
    one, two = place.start(1), place.start(2)
    await two.look()
    await one.look()
    del place.at["http://2"]
    for _ in range(2):
        place.clock.advance(2.0)
        await one.look()
        assert states(one)["control-2"] is STANDING_BY
    place.clock.advance(2.0)
    await one.look()
    assert states(one)["control-2"] is NOT_ANSWERING
    place.at["http://2"] = "h2"
    await one.look()
    assert states(one)["control-2"] is STANDING_BY


async def test_another_process_at_the_address_of_a_dead_one_does_not_make_it_live(place):
    one, two = place.start(1), place.start(2)
    await two.look()
    place.at["http://2"] = "a stranger"
    await one.look()
    assert states(one)["control-2"] is NOT_ANSWERING


async def test_a_store_that_is_away_changes_nothing_about_who_answers(place):
    one, two = place.start(1), place.start(2)
    await two.look()
    await one.look()
    place.store.away = True
    with capture_logs() as logs:
        for _ in range(5):
            place.clock.advance(2.0)
            await one.look()
    assert states(one) == {"control-1": LEADING, "control-2": STANDING_BY}
    assert [entry["event"] for entry in logs] == ["members.store_away"], "told once"


async def test_a_restart_takes_its_own_row_over(place):
    await place.start(1, holder="before").look()
    again = place.start(1, holder="after")
    await again.look()
    assert [member.holder for member in await place.store.load_members()] == ["after"]


async def test_a_name_that_another_one_bears_is_not_taken_from_it(place):
    await place.start(1).look()
    twin = place.start(2, name="control-1")
    with capture_logs() as logs:
        await twin.look()
    assert [entry["event"] for entry in logs] == ["members.name_taken"]
    assert [member.holder for member in await place.store.load_members()] == ["h1"]
    del place.at["http://1"]
    await twin.look()
    assert [member.holder for member in await place.store.load_members()] == ["h2"], "its first bearer is gone"


async def test_gateways_of_all_control_planes_are_peers(place):
    one, two = place.start(1), place.start(2)
    told = []
    two.gateways = lambda: (Peer(name="g2", address="10.0.0.2:8004"),)
    await two.look()
    one.changes.subscribe(lambda: told.append(one.peers()))
    one.gateways = lambda: (Peer(name="g1", address="10.0.0.1:8004"),)
    await one.look()
    assert [peer.name for peer in one.peers()] == ["g1", "g2"]
    assert told, "who waits for it is told"


async def test_only_one_that_is_gone_can_be_forgotten(place):
    one, two = place.start(1), place.start(2)
    await two.look()
    await one.look()
    for name in ("control-1", "control-2"):
        with pytest.raises(Conflict):
            await one.forget(name)
    with pytest.raises(NotFound):
        await one.forget("control-3")
    del place.at["http://2"]
    place.clock.advance(6.0)
    await one.forget("control-2")
    assert states(one) == {"control-1": LEADING}
    await one.look()
    assert states(one) == {"control-1": LEADING}


async def test_nobodys_address_is_given_for_the_leader_while_nobody_leads(place):
    one = place.start(1)
    nobody = replace(lease(), leader_name=None)
    assert Directory(Held(nobody), one).leader_address() is None


class Held:
    def __init__(self, found):
        self._found = found

    def status(self):
        return self._found
