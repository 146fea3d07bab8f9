import asyncio

import pytest
from structlog.testing import capture_logs

from llmgw.schema.errors import StoreUnavailable
from llmgw.schema.lease import LeaseStatus, Standing
from llmgw.server import leader as module
from llmgw.server.leader import Leadership


class Bench:
    """Records what leading does, in order."""

    def __init__(self):
        self.standing = Standing.STANDING_BY
        self.term = 1
        self.lapsed_s = None
        self.did = []
        self.fail_loads = 0
        self.reconciling = asyncio.Event()
        self.leadership = Leadership(
            lease=self,
            load=self.load,
            follow=self.follow,
            bootstrap=self.bootstrap,
            agents=self,
            reconcile=self.reconcile,
        )

    def status(self):
        return LeaseStatus(standing=self.standing, term=self.term, lapsed_s=self.lapsed_s)

    def lapses(self, seconds):
        self.standing, self.lapsed_s = Standing.LAPSED, seconds

    async def load(self):
        self.did.append("load")
        if self.fail_loads:
            self.fail_loads -= 1
            raise StoreUnavailable("away")

    async def follow(self):
        self.did.append("follow")
        if self.fail_loads:
            self.fail_loads -= 1
            raise StoreUnavailable("away")

    async def bootstrap(self):
        self.did.append("bootstrap")

    def open(self):
        self.did.append("open")

    def close(self, reason):
        self.did.append("close")

    async def reconcile(self):
        self.did.append("reconcile")
        self.reconciling.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.did.append("reconcile ends")
            self.reconciling.clear()


@pytest.fixture
async def bench(monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 0.005)
    monkeypatch.setattr(module, "FOLLOW_S", 0.02)
    bench = Bench()
    task = asyncio.ensure_future(bench.leadership.run())
    yield bench
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_agents_are_let_in_only_after_the_rows_are_read_and_the_first_secrets_made(bench):
    bench.standing = Standing.LEADING
    await asyncio.wait_for(bench.reconciling.wait(), 5)
    leading = bench.did[bench.did.index("bootstrap") - 1 :]
    assert leading == ["load", "bootstrap", "open", "reconcile"]


async def test_losing_the_lease_lets_agents_go_first_and_stops_the_reconciler(bench):
    bench.standing = Standing.LEADING
    await asyncio.wait_for(bench.reconciling.wait(), 5)
    bench.standing = Standing.STANDING_BY
    await _until(lambda: "reconcile ends" in bench.did)
    assert bench.did[bench.did.index("reconcile") + 1 :][:2] == ["close", "reconcile ends"]


async def test_a_change_of_the_lease_is_seen_at_once(monkeypatch):
    monkeypatch.setattr(module, "LOOK_S", 60.0)
    bench = Bench()
    task = asyncio.ensure_future(bench.leadership.run())
    await _until(lambda: bench.did)
    bench.standing = Standing.LEADING
    bench.leadership.wake()
    await asyncio.wait_for(bench.reconciling.wait(), 5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert bench.did[-2:] == ["close", "reconcile ends"]


async def test_a_standby_reads_the_rows_again_and_again(bench):
    await _until(lambda: bench.did.count("follow") >= 3)
    assert set(bench.did) == {"follow"}


async def test_a_store_that_is_away_is_asked_again_until_it_answers(bench):
    bench.fail_loads = 3
    bench.standing = Standing.LEADING
    await asyncio.wait_for(bench.reconciling.wait(), 5)
    assert bench.did.count("load") >= 4


async def test_an_outage_of_the_store_is_logged_once(bench):
    await _until(lambda: "follow" in bench.did)
    with capture_logs() as logs:
        bench.fail_loads = 5
        await _until(lambda: bench.did.count("follow") >= 8)
        bench.fail_loads = 2
        await _until(lambda: bench.did.count("follow") >= 12)
    assert [entry["event"] for entry in logs] == ["leader.cannot", "leader.cannot"]


async def test_a_lapsed_lease_keeps_agents_and_reconciler_for_a_minute(bench):
    bench.standing = Standing.LEADING
    await asyncio.wait_for(bench.reconciling.wait(), 5)
    bench.lapses(59.9)
    await asyncio.sleep(0.05)
    assert bench.did[-1] == "reconcile"
    bench.standing, bench.lapsed_s = Standing.LEADING, None
    await asyncio.sleep(0.05)
    assert bench.did[-1] == "reconcile", "the store came back, nobody led meanwhile: nothing begins anew"
    bench.lapses(60.0)
    await _until(lambda: "reconcile ends" in bench.did)
    assert bench.did[bench.did.index("reconcile") + 1 :][:2] == ["close", "reconcile ends"]


async def test_a_lease_lost_and_won_again_between_two_looks_begins_anew(bench):
    bench.standing = Standing.LEADING
    await asyncio.wait_for(bench.reconciling.wait(), 5)
    bench.term = 2
    await _until(lambda: bench.did.count("reconcile") == 2)
    again = bench.did[bench.did.index("reconcile") + 1 :]
    assert again == ["close", "reconcile ends", "load", "bootstrap", "open", "reconcile"]


async def test_a_lease_lost_while_the_rows_were_read_lets_no_agent_in(bench):
    async def lose():
        bench.did.append("bootstrap")
        bench.standing = Standing.STANDING_BY

    bench.leadership._bootstrap = lose
    bench.standing = Standing.LEADING
    await _until(lambda: "bootstrap" in bench.did)
    await _until(lambda: bench.did[-1] == "follow")
    assert "open" not in bench.did


async def _until(true):
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - what is waited for is state of the code under test, which tells nobody
            await asyncio.sleep(0.001)
