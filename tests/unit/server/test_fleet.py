import asyncio
import gc
from datetime import UTC, datetime

import pytest

from llmgw.ports import DeleteModel, FleetRows, PutApiKey, PutModel, PutSetting
from llmgw.schema.errors import Conflict, Fenced, NoLeader, StoreUnavailable
from llmgw.schema.key import ApiKey
from llmgw.schema.lease import Fence, LeaseRow, LeaseStatus, Standing
from llmgw.schema.model import Model
from llmgw.server.agents import Agents
from llmgw.server.demand import DemandBoard
from llmgw.server.fleet import HASH_KEY_SETTING, Fleet
from llmgw.server.live import LiveNodes
from llmgw.server.observe import Observer
from llmgw.store.memory import MemoryStore
from llmgw.testing.clock import FakeClock
from llmgw.testing.cluster import resolved
from llmgw.testing.faulty_store import FaultyStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = Model(name="chat", source="/m.gguf", created_at=NOW)
KEY = ApiKey(id="lk_12345678", hash="h", name="n", created_at=NOW)


class Lease:
    def __init__(self):
        self.now = Fence(epoch=1, holder="us")
        self.said = LeaseStatus(standing=Standing.STANDING_BY, leader_name="control-2")

    def is_leader(self):
        return self.now is not None

    def fence(self):
        return self.now

    def raise_epoch(self, at_least):
        raise AssertionError("nobody asked for it")

    def status(self):
        return self.said


class Bench:
    def __init__(self):
        self.clock = FakeClock()
        self.memory = MemoryStore(self.clock)
        self.take("us", 1)
        self.store = FaultyStore(self.memory)
        self.lease = Lease()
        live = LiveNodes()
        self.fleet = Fleet(
            store=self.store,
            clock=self.clock,
            lease=self.lease,
            observer=Observer(resolved),
            live=live,
            demand=DemandBoard(self.clock),
            logs=Agents(live=live, lease=self.lease, clock=self.clock),
        )
        self.told = []
        self.fleet.changes.subscribe(lambda: self.told.append(len(self.fleet.rows.models)))

    def take(self, holder, epoch):
        row = LeaseRow(holder=holder, epoch=epoch, beat=epoch, released=False, name=holder, address="a", renewed_at=NOW)
        store = self.memory.lease_store()
        assert store.take(store.read(), row)


@pytest.fixture
async def bench():
    bench = Bench()
    await bench.fleet.load()
    bench.told.clear()
    return bench


async def test_a_write_is_in_the_store_and_in_memory_before_anybody_is_told(bench):
    woken = []
    bench.fleet.wakes.subscribe(lambda: woken.append(1))
    await bench.fleet.write((PutModel(model=MODEL), PutApiKey(key=KEY), PutSetting(name=HASH_KEY_SETTING, value="ab")))
    assert bench.told == [1]
    assert woken == [1]
    assert bench.fleet.rows.models == (await bench.memory.load_fleet()).models == (MODEL,)
    assert bench.fleet.api_keys == (KEY,)
    assert bench.fleet.hash_key == b"\xab"


async def test_a_control_plane_that_does_not_lead_writes_nothing_and_says_who_leads(bench):
    bench.lease.now = None
    with pytest.raises(NoLeader, match="control-2 leads"):
        await bench.fleet.write((PutModel(model=MODEL),))
    assert bench.store.applied == 0
    assert bench.fleet.rows.models == ()


async def test_a_leader_whose_lease_lapsed_names_the_store_and_not_itself(bench):
    bench.lease.now = None
    bench.lease.said = LeaseStatus(standing=Standing.LAPSED, holder="us", store_problem="no answer within 1 s")
    with pytest.raises(StoreUnavailable, match="nothing was written: no answer within 1 s") as caught:
        await bench.fleet.write((PutModel(model=MODEL),))
    assert "served" in caught.value.hint
    assert bench.store.applied == 0


async def test_who_waited_behind_a_call_that_failed_is_refused_at_once(bench, monkeypatch):
    asked = []

    class Silent:
        async def apply(self, writes):
            asked.append(writes)
            await asyncio.sleep(0.01)
            raise StoreUnavailable("no answer to apply within 1 s", hint="wait")

    monkeypatch.setattr(bench.store, "leader", lambda fence: Silent())
    outcomes = await asyncio.gather(
        *(bench.fleet.write((PutModel(model=MODEL),)) for _ in range(5)), return_exceptions=True
    )
    assert len(asked) == 1
    assert [str(outcome) for outcome in outcomes] == [
        "no answer to apply within 1 s",
        *["nothing was written: no answer to apply within 1 s"] * 4,
    ]
    monkeypatch.undo()
    await bench.fleet.write((PutModel(model=MODEL),))
    assert bench.fleet.rows.models == (MODEL,)


async def test_others_wait_for_a_decision_that_takes_its_time_and_see_what_came_of_it(bench):
    may_go, seen = asyncio.Event(), []

    async def slowly(rows):
        await may_go.wait()
        return (PutModel(model=MODEL),)

    def later(rows):
        seen.append(rows.models)
        return ()

    slow = asyncio.ensure_future(bench.fleet.change_slowly(slowly))
    await asyncio.sleep(0)
    other = asyncio.ensure_future(bench.fleet.change(later))
    await asyncio.sleep(0)
    assert seen == []
    may_go.set()
    await asyncio.gather(slow, other)
    assert seen == [(MODEL,)]


async def test_a_fenced_write_changes_nothing_in_memory(bench):
    bench.take("them", 2)
    with pytest.raises(Fenced):
        await bench.fleet.write((PutModel(model=MODEL),))
    assert bench.fleet.rows.models == ()
    assert bench.told == []


async def test_after_an_unknown_outcome_the_store_is_read_before_the_next_decision(bench):
    def lose():
        bench.store.after = lambda: None
        raise StoreUnavailable("lost")

    bench.store.after = lose
    with pytest.raises(StoreUnavailable):
        await bench.fleet.write((PutModel(model=MODEL),))
    seen = []
    await bench.fleet.change(lambda rows: seen.extend(rows.models) or ())
    assert seen == [MODEL]


async def test_two_changes_never_decide_on_the_same_rows(bench):
    def serve(rows):
        if rows.models:
            raise Conflict("taken")
        return (PutModel(model=MODEL),)

    outcomes = await asyncio.gather(*(bench.fleet.change(serve) for _ in range(5)), return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 4


async def test_a_decision_to_write_nothing_touches_nothing(bench):
    await bench.fleet.change(lambda _: ())
    assert bench.store.applied == 0
    assert bench.told == []


async def test_a_caller_that_goes_away_leaves_memory_and_store_alike(bench):
    task = asyncio.ensure_future(bench.fleet.write((PutModel(model=MODEL),)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await bench.fleet.change(lambda _: (DeleteModel(name="other"),))
    assert bench.fleet.rows.models == (await bench.memory.load_fleet()).models == (MODEL,)


async def test_nothing_is_known_and_nobody_leads_before_the_first_load():
    bench = Bench()
    assert not bench.fleet.loaded
    assert not bench.fleet.is_leader()
    assert bench.fleet.hash_key == b""
    await bench.fleet.load()
    assert bench.fleet.is_leader()


async def test_a_load_that_fails_keeps_what_was_known(bench):
    await bench.fleet.write((PutModel(model=MODEL),))
    bench.memory.away = True
    with pytest.raises(StoreUnavailable):
        await bench.fleet.load()
    assert bench.fleet.rows.models == (MODEL,)


async def test_a_refusal_nobody_waits_for_any_more_is_no_noise(bench):
    heard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    entered, left = asyncio.Event(), asyncio.Event()

    async def refuse(_: FleetRows) -> tuple[()]:
        entered.set()
        await left.wait()
        raise NoLeader("nobody leads")

    task = asyncio.create_task(bench.fleet.change_slowly(refuse))
    await entered.wait()
    task.cancel()
    await asyncio.wait({task})
    left.set()
    del task  # its traceback would keep the write alive, and so its complaint silent
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert heard == []
