import asyncio
import json

import pytest

from llmgw.schema.model import Role
from llmgw.testing.fake_engine import Fault
from llmgw.testing.gateway_room import a_replica, a_route, until

COLD = a_route(unavailable="it is starting: loading\nweights", hold_s=300.0)
CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def waiting(here):
    return here.worker.admission.waiting("tiny")


async def held(here, **fields):
    """Send a request that has to wait; gives its task."""
    asking = asyncio.ensure_future(here.chat(**fields))
    await until(lambda: waiting(here) == 1)
    return asking


def lines(answer):
    return answer.body.decode().split("\n\n")


async def test_a_request_for_a_model_that_can_be_started_is_held_and_then_answered(room, engine):
    here = await room(COLD)
    asking = await held(here)
    here.change(a_route(a_replica("r1", engine.url, slots=2)))
    answer = await asking
    assert answer.status == 200
    assert answer.json()["choices"][0]["message"]["content"] == " 1 2 3 4 5 6 7 8"
    assert waiting(here) == 0


async def test_the_control_plane_is_told_at_once_of_the_first_held_request_and_by_the_next_report_of_others(room):
    here = await room(COLD)
    first = await held(here)
    second = asyncio.ensure_future(here.chat())
    await until(lambda: waiting(here) == 2)
    (report,) = here.reports
    assert report.urgent
    assert (report.demand["tiny"].held, report.demand["tiny"].arrivals) == (1, 1)
    for one in (first, second):
        one.cancel()


async def test_a_stream_is_silent_first_then_told_what_its_model_does_then_answered(room, engine):
    here = await room(COLD, hold_comment_s=0.05)
    asking = await held(here, stream=True)
    await asyncio.sleep(0.2)
    here.change(a_route(a_replica("r1", engine.url)))
    answer = await asking
    assert answer.status == 200
    assert answer.headers[b"content-type"] == b"text/event-stream"
    assert answer.headers[b"x-request-id"]
    events = lines(answer)
    assert events[0] == ": starting tiny: it is starting: loading weights"
    assert events.count(events[0]) >= 2
    assert events[-2:] == ["data: [DONE]", ""]


async def test_a_stream_that_need_not_wait_long_gets_no_comment(room, engine):
    here = await room(COLD)
    asking = await held(here, stream=True)
    here.change(a_route(a_replica("r1", engine.url)))
    assert (await asking).body.startswith(b"data: ")


async def test_a_plain_request_ends_as_503_with_a_time_to_try_again_within_a_minute(room):
    here = await room(COLD, hold_s=0.1)
    answer = await here.chat()
    assert (answer.status, answer.error["code"]) == (503, "model_starting")
    assert "it is starting: loading" in answer.error["message"]
    assert 5 <= int(answer.headers[b"retry-after"]) <= 60


async def test_a_client_that_tells_its_read_timeout_is_answered_before_it(room):
    here = await room(COLD)
    answer = await here.ask("/v1/chat/completions", CHAT, headers=[(b"x-stainless-read-timeout", b"6")])
    assert (answer.status, answer.error["code"]) == (503, "model_starting")


@pytest.mark.parametrize("told", [b"soon", b"nan", b""])
async def test_a_read_timeout_that_is_no_number_is_ignored(room, engine, told):
    here = await room(COLD, hold_s=30.0)
    asking = asyncio.ensure_future(
        here.ask("/v1/chat/completions", CHAT, headers=[(b"x-stainless-read-timeout", told)])
    )
    await until(lambda: waiting(here) == 1)
    here.change(a_route(a_replica("r1", engine.url)))
    assert (await asking).status == 200


async def test_embeddings_are_held_as_well(room, engine):
    here = await room(a_route(role=Role.EMBED, hold_s=300.0))
    asking = asyncio.ensure_future(here.ask("/v1/embeddings", {"model": "tiny", "input": "hi"}))
    await until(lambda: waiting(here) == 1)
    here.change(a_route(a_replica("r1", engine.url), role=Role.EMBED))
    assert (await asking).status == 200


async def test_a_start_that_turns_out_impossible_refuses_who_waits_and_who_comes_at_once(room):
    here = await room(COLD)
    asking = await held(here)
    here.change(a_route(unavailable="it fits on no node now: 1 node: 1 is full"))
    for answer in (await asking, await here.chat()):
        assert (answer.status, answer.error["code"]) == (503, "model_unavailable")
        assert "it fits on no node now: 1 node: 1 is full" in answer.error["message"]


async def test_an_error_after_comments_is_told_within_the_stream(room, engine):
    here = await room(COLD, hold_comment_s=0.05)
    asking = await held(here, stream=True)
    await asyncio.sleep(0.1)
    here.change(a_route(unavailable="it is parked after 5 failed starts: not GGUF"))
    answer = await asking
    assert answer.status == 200
    *_, last, end = lines(answer)
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "model_unavailable"
    assert end == ""


async def test_an_engines_error_after_comments_is_told_within_the_stream(room, engine):
    engine.fail(Fault.STATUS, arg=400)
    here = await room(COLD, hold_comment_s=0.05)
    asking = await held(here, stream=True)
    await asyncio.sleep(0.1)
    here.change(a_route(a_replica("r1", engine.url)))
    *_, last, _ = lines(await asking)
    assert "ordered fault 400" in json.loads(last.removeprefix("data: "))["error"]["message"]


async def test_a_client_that_leaves_is_no_longer_waited_for(room):
    here = await room(COLD)
    asking = await held(here)
    asking.cancel()
    await until(lambda: waiting(here) == 0)


async def test_a_model_that_is_not_started_on_demand_is_refused_at_once(room):
    here = await room(a_route(unavailable="it is starting"))
    answer = await here.chat()
    assert (answer.status, answer.error["code"]) == (503, "model_unavailable")


async def test_held_requests_are_bounded_in_number_and_in_bytes(room):
    here = await room(COLD, queue_per_model=1)
    first = await held(here)
    assert (await here.chat()).status == 429
    first.cancel()
    small = await room(COLD, hold_bytes=1000)
    second = await held(small)
    assert (await small.chat(text="x" * 2000)).status == 429
    second.cancel()
    await until(lambda: waiting(small) == 0)
    third = await held(small)
    third.cancel()


async def test_replicas_that_were_asked_are_reported_with_the_age_of_their_last_answer(room, engine):
    here = await room(a_route(a_replica("r1", engine.url), a_replica("r2", engine.url)))
    assert (await here.chat()).status == 200
    report = here.worker.report()
    (asked,) = report.replicas.values()
    assert asked.in_flight == 0
    assert 0 <= asked.last_answered_age_s < 5
