import pytest
from msgspec import convert

from llmgw.core.messages.turns import chat_messages
from llmgw.core.untranslatable import Untranslatable
from llmgw.schema.anthropic.blocks import TextBlock
from llmgw.schema.anthropic.request import InputMessage

HI = {"role": "user", "content": "hi"}
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def turns(*messages, system=None):
    if isinstance(system, list):
        system = convert(system, list[TextBlock])
    return chat_messages(system, convert(messages, tuple[InputMessage, ...]))


def text(words, **more):
    return {"type": "text", "text": words, **more}


def test_texts_stay_texts():
    assert turns(HI, {"role": "assistant", "content": "yes?"}, HI) == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yes?"},
        {"role": "user", "content": "hi"},
    ]


def test_a_system_prompt_comes_first_as_one_text():
    assert turns(HI, system="be kind")[0] == {"role": "system", "content": "be kind"}
    blocks = [text("be kind", cache_control={"type": "ephemeral"}), text(""), text("be brief")]
    assert turns(HI, system=blocks)[0] == {"role": "system", "content": "be kind\n\nbe brief"}
    assert turns(HI, system=[]) == turns(HI, system="") == turns(HI)


def test_a_providers_billing_line_never_reaches_a_prompt():
    line = text("x-anthropic-billing-header: cc_version=2; cch=1f3a;")
    assert turns(HI, system=[line, text("be kind")])[0]["content"] == "be kind"
    assert turns(HI, system=[line]) == turns(HI)


def test_a_single_text_block_is_a_text_and_several_stay_apart():
    assert turns({"role": "user", "content": [text("hi")]}) == [HI]
    several = turns({"role": "user", "content": [text("a"), PIXEL, text("b")]})
    assert several == [{"role": "user", "content": [text("a"), SHOWN, text("b")]}]


def test_an_image_may_be_fetched():
    image = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
    (message,) = turns({"role": "user", "content": [image]})
    assert message["content"] == [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]


def test_neighbours_of_one_role_become_one_message():
    messages = turns(HI, {"role": "user", "content": [text("again")]}, {"role": "assistant", "content": "a"})
    assert messages[0] == {"role": "user", "content": [text("hi"), text("again")]}
    assert len(messages) == 2


def test_a_tool_is_called_thought_about_and_answered():
    called = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "ö"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    answered = {"type": "tool_result", "tool_use_id": "t1", "content": [text("red"), PIXEL, text("blue")]}
    hidden = {"type": "redacted_thinking", "data": "x"}
    messages = turns(
        HI,
        {"role": "assistant", "content": [thought, hidden, text("I look."), called]},
        {"role": "user", "content": [text("well?"), answered]},
    )
    assert messages[1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"at":"ö"}'}}],
    }
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "red\nblue"},
        {"role": "user", "content": [text("well?"), SHOWN]},
    ]


def test_results_of_tools_alone_need_no_words_of_the_user():
    results = [{"type": "tool_result", "tool_use_id": one} for one in ("t1", "t2")]
    assert turns({"role": "user", "content": results}) == [
        {"role": "tool", "tool_call_id": "t1", "content": ""},
        {"role": "tool", "tool_call_id": "t2", "content": ""},
    ]


@pytest.mark.parametrize(("said", "told"), [("no disk", "Error: no disk"), (None, "Error"), ([], "Error")])
def test_a_failed_tool_says_so(said, told):
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": said, "is_error": True}
    assert turns({"role": "user", "content": [failed]})[0]["content"] == told


def test_documents_and_finds_are_read_as_text():
    plain = {"type": "document", "source": {"type": "text", "data": "rain"}, "title": "Sky", "context": "today"}
    made = {"type": "document", "source": {"type": "content", "content": [text("wind"), PIXEL]}, "title": "Sea"}
    worded = {"type": "document", "source": {"type": "content", "content": "sun"}}
    found = {"type": "search_result", "source": "http://x", "title": "X", "content": [text("a"), text("b")]}
    (message,) = turns({"role": "user", "content": [plain, made, worded, found]})
    assert message["content"] == [
        text("Sky\n\ntoday\n\nrain"),
        text("Sea"),
        text("wind"),
        SHOWN,
        text("sun"),
        text("X\n\nhttp://x\n\na\n\nb"),
    ]


def test_a_found_tool_is_told_by_its_name():
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "look"}]}
    assert turns({"role": "user", "content": [result]})[0]["content"] == "look"


def test_a_system_message_in_the_middle_stays_there():
    told = {"role": "system", "content": [text("now be brief")]}
    assert [one["role"] for one in turns(HI, told, HI)] == ["user", "system", "user"]


@pytest.mark.parametrize(
    ("role", "block", "field"),
    [
        ("user", {"type": "tool_use", "id": "t", "name": "n", "input": {}}, "messages[1].content[0]"),
        ("user", {"type": "thinking", "thinking": "x"}, "messages[1].content[0]"),
        ("assistant", {"type": "tool_result", "tool_use_id": "t"}, "messages[1].content[0]"),
        ("assistant", PIXEL, "messages[1].content[0]"),
        ("system", PIXEL, "messages[1].content[0]"),
        (
            "user",
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
            "messages[1].content[0].source.type",
        ),
        (
            "user",
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A"}},
            "messages[1].content[0].source.type",
        ),
        (
            "user",
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}],
            },
            "messages[1].content[0].content[0].source.type",
        ),
    ],
)
def test_what_a_chat_cannot_say_is_refused_by_its_place(role, block, field):
    with pytest.raises(Untranslatable) as caught:
        turns(HI, {"role": role, "content": [block]})
    assert caught.value.field == field
