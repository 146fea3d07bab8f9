import pytest

from llmgw.core.guard.openai_turns import chat_conversation, completion_conversation
from llmgw.core.guard.turns import Speaker, Turn, Unreadable
from llmgw.schema.guard.coverage import Why


def texts(body):
    return "\n".join(turn.text for turn in chat_conversation(body).turns)


def test_messages_become_turns_of_their_speakers():
    conversation = chat_conversation(
        {
            "messages": [
                {"role": "system", "content": "be kind"},
                {"role": "developer", "content": "be brief"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "hello"},
                {"role": "tool", "tool_call_id": "c", "content": "42"},
            ]
        }
    )
    speakers = [turn.speaker for turn in conversation.turns]
    assert speakers == [Speaker.SYSTEM, Speaker.SYSTEM, Speaker.USER, Speaker.ASSISTANT, Speaker.TOOL]
    assert conversation.turns[2] == Turn(Speaker.USER, "hi", "messages[2].content")
    assert (conversation.messages, conversation.characters) == (5, 7 + 8 + 2 + 5 + 2)


def test_every_part_of_a_message_is_read():
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}
    assert chat_conversation(body).turns[1] == Turn(Speaker.USER, "b", "messages[0].content[1].text")


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, Why.IMAGE),
        ({"type": "input_audio", "input_audio": {"data": "AAAA"}}, Why.AUDIO),
        ({"type": "file", "file": {"file_data": "AAAA"}}, Why.FILE),
        ({"type": "hologram", "data": 7}, Why.UNKNOWN_PART),
        (7, Why.UNKNOWN_PART),
    ],
)
def test_parts_without_text_are_named_not_ignored(part, why):
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "look"}, part]}]}
    assert chat_conversation(body).unreadable == (Unreadable("messages[0].content[1]", why),)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "fine", "reasoning_content": "POISON"},
        {"role": "user", "content": "fine", "name": "POISON"},
        {"role": "user", "content": [{"type": "text", "text": "fine", "note": "POISON"}]},
        {"role": "user", "content": [{"type": "unheard_of", "words": "POISON"}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"q": "POISON"}'}}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"q": "\\u0050OISON"}'}}]},
        {"role": "assistant", "function_call": {"name": "POISON", "arguments": "{}"}},
        {"role": "assistant", "content": None, "refusal": "POISON"},
        {"role": "narrator", "content": "POISON"},
        {"role": ["user"], "content": "POISON"},
    ],
)
def test_nothing_in_a_message_slips_past(message):
    assert "POISON" in texts({"messages": [{"role": "user", "content": "hi"}, message]})


@pytest.mark.parametrize(
    "member",
    [
        {"tools": [{"type": "function", "function": {"name": "f", "description": "POISON"}}]},
        {"functions": [{"name": "POISON"}]},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"description": "POISON"}}}},
    ],
)
def test_what_stands_beside_the_messages_is_read_too(member):
    assert "POISON" in texts({"messages": [{"role": "user", "content": "hi"}]} | member)


@pytest.mark.parametrize("messages", ["hi", 7, {"role": "user"}, ["hi"], [7]])
def test_messages_of_another_form_are_unreadable(messages):
    assert chat_conversation({"messages": messages}).unreadable


def test_tools_are_counted():
    assert chat_conversation({"messages": [], "tools": [{}, {}]}).tools == 2


def test_nesting_without_end_is_unreadable_not_an_error():
    deep = "x"
    for _ in range(5000):
        deep = [deep]
    assert chat_conversation({"messages": [{"role": "user", "content": "a", "more": deep}]}).unreadable


@pytest.mark.parametrize(
    ("prompt", "turns", "unreadable"),
    [
        ("once", ["once"], []),
        (["a", "b"], ["a", "b"], []),
        ([1, 2, 3], [], [Why.TOKEN_NUMBERS]),
        (["a", [1, 2]], ["a"], [Why.TOKEN_NUMBERS]),
        ({"x": 1}, [], [Why.UNKNOWN_PART]),
        (None, [], []),
    ],
)
def test_prompts_are_read_in_all_their_forms(prompt, turns, unreadable):
    conversation = completion_conversation({"prompt": prompt})
    assert [turn.text for turn in conversation.turns] == turns
    assert [one.why for one in conversation.unreadable] == unreadable


def test_a_suffix_is_read():
    assert completion_conversation({"prompt": "a", "suffix": "b"}).turns[1].where == "suffix"
