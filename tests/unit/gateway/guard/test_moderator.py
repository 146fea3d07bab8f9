"""`/v1/moderations`: a judge asked outright."""

import pytest

from llmgw.schema.guard.rule import Stage
from llmgw.testing.fake_engine import Fault
from llmgw.testing.guard_policies import rule
from llmgw.testing.scripted_judge import WORD

PATH = "/v1/moderations"


async def ask(court, given, **more):
    return await court.room.ask(PATH, {"input": given, **more})


@pytest.mark.parametrize("model", [{}, {"model": "guard"}, {"model": None}])
async def test_one_text_gets_one_result_with_categories(court, model):
    court.rules(rule(stage=Stage.INPUT))
    answer = await ask(court, f"about {WORD}", **model)
    assert answer.status == 200
    body = answer.json()
    assert body["model"] == "guard"
    (result,) = body["results"]
    assert result["flagged"] is True
    assert result["categories"]["illicit/violent"] is True
    assert result["llmgw"]["codes"] == ["S9"]


async def test_several_texts_get_a_result_each_and_parts_one(court):
    court.rules(rule(stage=Stage.INPUT))
    several = (await ask(court, ["fine", WORD])).json()["results"]
    assert [one["flagged"] for one in several] == [False, True]
    parts = [{"type": "text", "text": "fine"}, {"type": "text", "text": WORD}]
    assert [one["flagged"] for one in (await ask(court, parts)).json()["results"]] == [True]


async def test_a_text_of_many_windows_is_unsafe_if_one_is(court):
    court.rules(rule(stage=Stage.INPUT))
    (result,) = (await ask(court, WORD + " hello" * 8000)).json()["results"]
    assert result["flagged"] is True
    assert len(court.judge.requests) > 3


@pytest.mark.parametrize(
    ("given", "more", "status", "code"),
    [
        ([{"type": "image_url", "image_url": {"url": "x"}}], {}, 400, "unscannable_content"),
        ([], {}, 400, "invalid_value"),
        ("hi", {"model": "tiny"}, 400, "wrong_role"),
        ("hi", {"model": "nobody"}, 404, "model_not_found"),
        (5, {}, 400, "invalid_type"),
    ],
)
async def test_what_cannot_be_judged_is_told(court, given, more, status, code):
    court.rules(rule(stage=Stage.INPUT))
    answer = await ask(court, given, **more)
    assert (answer.status, answer.error["code"]) == (status, code)


async def test_a_judge_without_a_verdict_is_an_error_and_never_safe(court):
    court.rules(rule(stage=Stage.INPUT))
    court.judge.fail(Fault.STATUS, arg=500, times=9)
    answer = await ask(court, "hi")
    assert (answer.status, answer.error["code"]) == (503, "guard_unavailable")


async def test_without_a_policy_there_is_no_judge_to_ask(court):
    answer = await ask(court, "hi")
    assert (answer.status, answer.error["code"]) == (404, "no_judge")
