import asyncio

import pytest

from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import a_replica, a_route, until
from llmgw.testing.raw_http import Upstream


def both(made, **options):
    return a_route(*(a_replica(f"r{n}", one.url, **options) for n, one in enumerate(made)))


async def test_load_is_counted_when_a_replica_is_chosen(room, engines):
    made = await engines(3)
    for one in made:
        one.fail(Fault.HANG, times=9)
    here = await room(both(made))
    asking = [asyncio.ensure_future(here.chat()) for _ in range(6)]
    await until(lambda: sum(one.counts.started for one in made) == 6)
    assert [one.counts.started for one in made] == [2, 2, 2]
    for one in asking:
        one.cancel()


@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
@pytest.mark.parametrize("fault", [Fault.DROP, Fault.DIE])
async def test_a_replica_that_breaks_before_the_first_byte_is_replaced_by_another(room, engines, kind, fault):
    first, second = await engines(2)
    for one in (first, second):
        one.fail(fault, arg=0)
    here = await room(both((first, second), kind=kind))
    answers = [await here.chat(), await here.chat(), await here.chat()]
    # Each engine fails once: one request meets both faults and has nobody left to ask.
    statuses = sorted(answer.status for answer in answers)
    assert statuses in ([200, 200, 200], [200, 200, 502])
    assert first.counts.started + second.counts.started >= 4


async def test_a_dead_replica_is_never_noticed_by_clients_and_left_out_for_a_while(room, engines):
    dead, alive = await engines(2)
    here = await room(both((dead, alive)))
    await dead.stop()
    for number in range(8):
        assert (await here.chat(text=str(number))).status == 200
    target = next(one for one in here.worker.view.route("tiny").targets if one.id == "r0")
    assert target.breaker.strikes <= 2


async def test_a_single_replica_is_not_asked_twice(room, engine):
    engine.fail(Fault.DROP, times=5)
    here = await room(a_route(a_replica("r1", engine.url)))
    answer = await here.chat()
    assert (answer.status, answer.error["code"]) == (502, "upstream_error")
    assert "127.0.0.1" not in answer.error["message"]
    assert engine.counts.started == 1


async def test_at_most_two_retries_are_made(room, engines):
    made = await engines(5)
    for one in made:
        one.fail(Fault.STATUS, arg=503, times=9)
    here = await room(both(made))
    answer = await here.chat()
    assert answer.status == 503
    assert sum(one.counts.started for one in made) == 3


async def test_a_stranger_on_the_port_is_a_failed_replica_and_its_401_is_not_the_clients(room, engines):
    stranger, ours = await engines(2)
    stranger.key, ours.key = "another", "engine-key"
    here = await room(both((stranger, ours), key="engine-key"))
    for number in range(6):
        assert (await here.chat(text=str(number))).status == 200
    here.change(a_route(a_replica("r0", stranger.url, key="engine-key")))
    alone = await here.chat()
    assert (alone.status, alone.error["code"]) == (502, "upstream_error")


async def test_a_clients_error_is_handed_on_and_does_not_count_against_the_replica(room, engines):
    first, second = await engines(2)
    first.fail(Fault.STATUS, arg=400)
    second.fail(Fault.STATUS, arg=400)
    here = await room(both((first, second)))
    answer = await here.chat()
    assert answer.status == 400
    assert set(answer.error) >= {"message", "type", "param", "code"}
    assert first.counts.started + second.counts.started == 1
    assert all(target.breaker.strikes == 0 for target in here.worker.view.route("tiny").targets)


async def test_an_engine_that_is_full_hands_the_request_to_another_and_its_retry_after_on(room, engines):
    first, second = await engines(2)
    first.fail(Fault.STATUS, arg=429, times=9)
    here = await room(both((first, second)))
    for number in range(4):
        assert (await here.chat(text=str(number))).status == 200
    second.fail(Fault.STATUS, arg=429, times=9)
    answer = await here.chat()
    assert (answer.status, answer.headers[b"retry-after"]) == (429, b"1")


async def test_never_more_requests_at_an_engine_than_its_slots(room, engine):
    engine.chunk_s = 0.002
    here = await room(a_route(a_replica("r1", engine.url, slots=3)))
    answers = await asyncio.gather(*(here.chat() for _ in range(30)))
    assert {answer.status for answer in answers} == {200}
    assert engine.counts.most_at_once == 3


async def test_a_silent_engine_is_a_timeout(room, engine):
    engine.fail(Fault.HANG)
    here = await room(a_route(a_replica("r1", engine.url)), first_byte_timeout_s=0.05)
    answer = await here.chat()
    assert (answer.status, answer.error["code"]) == (504, "upstream_timeout")


async def test_demand_counts_what_waits_what_runs_and_what_came(room, engine):
    engine.fail(Fault.HANG, times=9)
    here = await room(a_route(a_replica("r1", engine.url, slots=1)))
    asking = [asyncio.ensure_future(here.chat()) for _ in range(3)]
    await until(lambda: here.worker.admission.waiting("tiny") == 2)
    one = here.worker.report().demand["tiny"]
    assert (one.held, one.in_flight, one.arrivals, one.last_finished_age_s) == (2, 1, 3, None)
    assert one.oldest_wait_s is not None
    for task in asking:
        task.cancel()


class Clinging:
    """An engine that sees its client leave and goes on until it is told to let go, as llama.cpp in a long prompt."""

    def __init__(self) -> None:
        self.started = 0
        self.go = asyncio.Event()
        self.upstream = Upstream(self._serve)

    async def _serve(self, line) -> None:
        await line.request()
        self.started += 1
        await line.peer_left()
        await self.go.wait()


@pytest.fixture
async def clinging():
    one = Clinging()
    await one.upstream.start()
    yield one
    await one.upstream.stop()


async def leave(here, begun, **options):
    """Begin a request and go as soon as the engine has it."""
    asking = asyncio.ensure_future(here.chat(**options))
    await begun()
    asking.cancel()
    await asyncio.wait({asking})


@pytest.mark.parametrize("stream", [False, True])
async def test_a_slot_is_busy_until_the_engine_let_go_of_an_abandoned_request(room, clinging, stream):
    url = f"http://127.0.0.1:{clinging.upstream.port}"
    here = await room(a_route(a_replica("r", url, kind="llamacpp", slots=1, context=99)))
    await leave(here, lambda: until(lambda: clinging.started == 1), stream=stream)
    await asyncio.wait_for(clinging.upstream.left.wait(), 0.25)
    second = asyncio.ensure_future(here.chat())
    await asyncio.sleep(0.05)
    assert (clinging.started, here.worker.counters.in_flight["tiny"]) == (1, 2)
    assert here.worker.admission.waiting("tiny") == 1
    clinging.go.set()
    await until(lambda: clinging.started == 2)
    second.cancel()
    await until(lambda: here.worker.counters.in_flight["tiny"] == 0)


async def test_an_engine_with_unknown_slots_is_not_waited_for(room, clinging):
    url = f"http://127.0.0.1:{clinging.upstream.port}"
    here = await room(a_route(a_replica("r", url)))
    await leave(here, lambda: until(lambda: clinging.started == 1))
    await until(lambda: here.worker.counters.in_flight["tiny"] == 0)
    assert not clinging.go.is_set()
