import msgspec
import pytest

from llmgw.core.messages.answer import message_body
from llmgw.core.untranslatable import Untranslatable
from llmgw.schema.openai.chat_answer import ChatAnswer

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}


def message(finish="stop", *, usage=USAGE, **said):
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **said}}
    answer = {"id": "chatcmpl-7", "model": "org/big", "created": 1, "choices": [choice], "usage": usage}
    return message_body(msgspec.json.decode(msgspec.json.encode(answer), type=ChatAnswer))


def call(name="look", arguments='{"at":"ö"}', **more):
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def test_words_are_one_block():
    assert message(content="hello") == {
        "id": "msg_7",
        "type": "message",
        "role": "assistant",
        "model": "org/big",
        "content": [{"type": "text", "text": "hello"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 5,
            "output_tokens": 3,
        },
    }


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thoughts_words_and_calls_come_in_this_order(name):
    made = message("tool_calls", **{name: "hm"}, content="I look.", tool_calls=[call(), call("see", "")])
    assert made["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": "ö"}},
        {"type": "tool_use", "id": "call_1", "name": "see", "input": {}},
    ]
    assert made["stop_reason"] == "tool_use"


def test_a_call_without_an_id_gets_one():
    made = message("tool_calls", content=None, tool_calls=[call(id=None), call(id=None)])
    assert [block["id"] for block in made["content"]] == ["toolu_msg_7_0", "toolu_msg_7_1"]


@pytest.mark.parametrize("arguments", ['{"at": "hal', "[1]", "3", '{"at":"\\ud800"}'])
def test_an_input_that_is_no_object_is_told_as_it_is(arguments):
    made = message("length", tool_calls=[call(arguments=arguments)])
    assert made["content"][0]["input"] == {"INVALID_JSON": arguments}


def test_a_refusal_is_words():
    assert message("stop", content=None, refusal="I will not.")["content"] == [{"type": "text", "text": "I will not."}]


def test_an_answer_of_nothing_has_no_block():
    assert message(content="")["content"] == []
    assert message(content=None, usage=None)["usage"]["output_tokens"] is None


def test_what_is_no_answer_is_refused():
    with pytest.raises(Untranslatable):
        message_body(ChatAnswer(choices=()))
    with pytest.raises(Untranslatable):
        message("tool_calls", tool_calls=[call(name=None)])
