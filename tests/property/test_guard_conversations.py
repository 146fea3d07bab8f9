"""Sixty conversations get the same verdicts on every surface, and nothing unsafe goes out."""

import pytest

from llmgw.schema.guard.rule import Stage
from llmgw.testing.guard_conversations import conversations
from llmgw.testing.guard_policies import rule
from llmgw.testing.guard_room import finishes, guard_room, said
from llmgw.testing.scripted_judge import WORD

ALL = conversations(marker=WORD)


@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("chat", [True, False])
async def test_verdicts_are_the_same_on_every_surface(tmp_path, kind, stream, chat):
    async with guard_room(tmp_path, kind=kind) as court:
        court.rules(rule(stage=Stage.INPUT, name="in"), rule(stage=Stage.OUTPUT, name="out"))
        for one in ALL:
            answer = await court.converse(one, chat=chat, stream=stream)
            assert _verdict(answer) == _expected(one), one.name
            assert WORD.encode() not in answer.body, one.name
            if _expected(one) == "allowed":
                assert said(answer.body) == "".join(one.answer), one.name


async def test_patterns_find_in_streams_what_they_find_in_whole_answers(tmp_path):
    async with guard_room(tmp_path) as court:
        court.rules(rule(pattern=WORD, name="word"))
        for one in ALL:
            for stream in (False, True):
                answer = await court.converse(one, chat=True, stream=stream)
                assert _verdict(answer) == _expected(one), one.name
                assert WORD.encode() not in answer.body, one.name


def _verdict(answer):
    if answer.status == 400:
        return answer.error["code"]
    return "content_filter" if "content_filter" in finishes(answer.body) else "allowed"


def _expected(one):
    if one.unsafe_input:
        return "content_policy_violation"
    return "content_filter" if one.unsafe_output else "allowed"
