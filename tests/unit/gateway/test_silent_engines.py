import asyncio
import contextlib

import pytest
from msgspec.structs import replace

from llmgw.gateway.silent_engines import SilentEngines
from llmgw.testing.fake_doors import FakeDoors
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_room import a_replica, a_route, a_view, until


def view(*replicas):
    return a_view(a_route(*replicas))


def silent(name, engine, **changes):
    return replace(a_replica(name, engine.url, key="le_key"), silent=True, **changes)


@contextlib.asynccontextmanager
async def asking(found):
    running = asyncio.ensure_future(found.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_engine_whose_agent_is_silent_is_asked_again_and_again_and_its_answer_is_no_request():
    found = SilentEngines(None, probe_s=0.01)
    async with FakeEngine(model="tiny", key="le_key") as engine, asking(found):
        found.take(view(silent("r1", engine)))
        await until(lambda: "r1" in found.answered())
        before = found.answered()["r1"].last_probed_age_s
        await until(lambda: found.answered()["r1"].last_probed_age_s < before)
        told = found.answered()["r1"]
        assert (told.in_flight, told.last_answered_age_s) == (0, None)
        assert engine.counts.started == 0


async def test_engines_of_nodes_that_report_are_not_asked_and_one_that_is_silent_no_longer_is_forgotten():
    found = SilentEngines(None, probe_s=0.01)
    async with FakeEngine(model="tiny", key="le_key") as engine, asking(found):
        found.take(view(replace(silent("r1", engine), silent=False), silent("r2", engine)))
        await until(lambda: "r2" in found.answered())
        assert set(found.answered()) == {"r2"}
        found.take(view(replace(silent("r2", engine), silent=False)))
        assert found.answered() == {}


@pytest.mark.parametrize("why", ["another key", "a stopped process", "nobody listens"])
async def test_what_does_not_answer_well_is_no_engine_and_holds_up_no_other(why):
    found = SilentEngines(None, probe_s=0.01, deadline_s=0.05)
    async with FakeEngine(model="tiny", key="le_key") as good, FakeEngine(model="tiny", key="le_other") as other:
        bad = silent("bad", other)
        if why == "nobody listens":
            bad = replace(bad, endpoint="http://127.0.0.1:1")
        async with contextlib.AsyncExitStack() as stack:
            if why == "a stopped process":
                mute = await asyncio.start_server(lambda _, writer: writers.append(writer), "127.0.0.1", 0)
                writers: list[asyncio.StreamWriter] = []
                stack.callback(mute.close)
                stack.callback(lambda: [writer.transport.abort() for writer in writers])
                bad = replace(bad, endpoint=f"http://127.0.0.1:{mute.sockets[0].getsockname()[1]}")
            async with asking(found):
                found.take(view(bad, silent("good", good)))
                await until(lambda: "good" in found.answered())
                first = found.answered()["good"].last_probed_age_s
                await until(lambda: found.answered()["good"].last_probed_age_s < first)
                assert set(found.answered()) == {"good"}


async def test_from_another_machine_the_nodes_door_is_asked_which_knows_the_key():
    async def model_of(shard):
        return "tiny" if shard == "r1.0" else None

    found = SilentEngines("here", probe_s=0.01)
    async with FakeDoors(model_of) as doors, asking(found):
        there = replace(a_replica("r1", "http://127.0.0.1:1"), silent=True, place="there", door=doors.address)
        found.take(view(there, replace(there, id="r2", shard="r2.0")))
        await until(lambda: "r1" in found.answered())
        assert set(found.answered()) == {"r1"}, "a door that does not know the engine says nothing for it"
