"""The sixty conversations get the verdicts of a chat from `/v1/messages` too, and nothing unsafe goes out."""

import pytest

from llmgw.schema.guard.rule import Stage
from llmgw.testing.anthropic_wire import as_messages, message_of, texts
from llmgw.testing.guard_conversations import conversations
from llmgw.testing.guard_policies import rule
from llmgw.testing.guard_room import guard_room
from llmgw.testing.scripted_judge import WORD


@pytest.mark.parametrize("kind", ["openai", "llamacpp"])
@pytest.mark.parametrize("stream", [False, True])
async def test_verdicts_are_those_of_a_chat(tmp_path, kind, stream):
    async with guard_room(tmp_path, kind=kind) as court:
        court.rules(rule(stage=Stage.INPUT, name="in"), rule(stage=Stage.OUTPUT, name="out"))
        for one in conversations(marker=WORD):
            court.says(*one.answer)
            asked = {"model": "tiny", "max_tokens": 99, "stream": stream, **as_messages(one)}
            answer = await court.room.ask("/v1/messages", asked)
            assert WORD.encode() not in answer.body, one.name
            if one.unsafe_input:
                assert answer.status == 400, one.name
                assert answer.error["type"] == "invalid_request_error", one.name
                assert answer.error["code"] == "content_policy_violation", one.name
                assert answer.error["guardrails"] == ["p/in"], one.name
                continue
            message = message_of(answer.body) if stream else answer.json()
            assert message["stop_reason"] == ("refusal" if one.unsafe_output else "end_turn"), one.name
            assert one.unsafe_output or texts(message) == "".join(one.answer), one.name
