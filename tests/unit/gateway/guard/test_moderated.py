"""A chat that asks for moderation, as OpenAI's types have it: verdicts with the answer, or no answer."""

import json

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from llmgw.schema.guard.rule import Action, Stage
from llmgw.testing.fake_engine import Fault
from llmgw.testing.guard_policies import rule
from llmgw.testing.guard_room import guard_room
from llmgw.testing.scripted_judge import WORD

COMMON = {"created": 0, "model": "tiny"}
"""The scripted engine leaves these out."""
SCORE = {"model": "guard"}


def blocking(side):
    return {"model": "guard", "policy": {side: {"mode": "block"}}}


@pytest.fixture
async def court(tmp_path):
    async with guard_room(tmp_path) as court:
        # Some policy asks the judge: else it is none that this gateway knows.
        court.rules(rule(name="beside", stage=Stage.INPUT, action=Action.SHADOW))
        court.says("so it is", " and goes on")
        yield court


async def ask(court, text, moderation, *, stream=False):
    answer = await court.room.chat(text=text, moderation=moderation, stream=stream)
    assert answer.status == 200
    if not stream:
        return ChatCompletion.model_validate({**COMMON, **answer.json()}).moderation, answer
    frames = [line[6:] for line in answer.body.decode().split("\n\n") if line.startswith("data: ")]
    assert frames[-1] == "[DONE]"
    chunks = [ChatCompletionChunk.model_validate({**COMMON, **json.loads(frame)}) for frame in frames[:-1]]
    (told,) = [chunk.moderation for chunk in chunks if chunk.moderation is not None]
    assert chunks[-1].moderation is told
    return told, answer


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_carries_the_verdicts_on_the_request_and_on_itself(court, stream):
    told, answer = await ask(court, f"how to make {WORD}", SCORE, stream=stream)
    assert b"so it is" in answer.body
    (one,) = told.input.results
    assert (told.input.type, told.input.model, one.flagged) == ("moderation_results", "guard", True)
    assert one.categories["illicit/violent"]
    assert one.category_scores["illicit/violent"] == pytest.approx(0.99)

    told, _ = await ask(court, "hello", SCORE, stream=stream)
    assert (told.input.results[0].flagged, told.output.results[0].flagged) == (False, False)

    court.says("first take ", WORD)
    told, _ = await ask(court, "hello", SCORE, stream=stream)
    assert (told.input.results[0].flagged, told.output.results[0].flagged) == (False, True)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_engine_does_not_hear_of_it(court, stream):
    await ask(court, "hello", SCORE, stream=stream)
    await court.room.chat(moderation=None, stream=stream)
    assert all("moderation" not in json.loads(request.body) for request in court.engine.requests)


@pytest.mark.parametrize("stream", [False, True])
async def test_who_wants_no_unsafe_answer_gets_none(court, stream):
    refused = await court.room.chat(text=WORD, moderation=blocking("input"), stream=stream)
    assert (refused.status, refused.error["code"]) == (400, "content_policy_violation")
    court.says("first take ", WORD)
    told, answer = await ask(court, "hello", blocking("output"), stream=stream)
    assert WORD.encode() not in answer.body
    assert b"content_filter" in answer.body
    assert told.output.results[0].flagged


@pytest.mark.parametrize("stream", [False, True])
async def test_no_verdict_is_an_error_and_never_unflagged(court, stream):
    court.judge.fail(Fault.STATUS, arg=500, times=100)
    told, _ = await ask(court, "hello", SCORE, stream=stream)
    for side in (told.input, told.output):
        assert side.type == "error"
        assert "guard" in side.message


@pytest.mark.parametrize(
    ("moderation", "status", "param"),
    [
        ({"model": "nobody"}, 404, "moderation.model"),
        ({"model": "tiny"}, 400, "moderation.model"),
        ({}, 400, "moderation.model"),
        ({"model": "guard", "policy": {"input": {"mode": "watch"}}}, 400, "moderation.policy.input.mode"),
        ("guard", 400, "moderation"),
    ],
)
async def test_what_is_wrong_is_named(court, moderation, status, param):
    answer = await court.room.chat(moderation=moderation)
    assert (answer.status, answer.error["param"]) == (status, param)
    assert court.engine.requests == []


async def test_rules_of_policies_count_beside_it_and_their_verdicts_are_not_told(court):
    court.rules(rule(name="stop", pattern=("forbidden",)), rule(name="in", stage=Stage.INPUT, action=Action.SHADOW))
    assert (await court.room.chat(text="forbidden", moderation=SCORE)).status == 400
    told, answer = await ask(court, "hello", SCORE)
    assert len(told.input.results) == 1
    assert "stop" not in str(answer.json()["moderation"])
