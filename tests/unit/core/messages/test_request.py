import msgspec
import pytest

from llmgw.core.messages.request import REFUSED, WITHOUT_EFFECT, chat_body, prompt_body
from llmgw.core.untranslatable import Untranslatable
from llmgw.schema.anthropic.request import CountRequest, MessagesRequest

SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}
LOOK = {"name": "look", "description": "Look.", "input_schema": SCHEMA}
ASK = {"model": "org/big", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
PLAIN = {"model": "org/big", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


def body(**fields):
    raw = msgspec.json.encode({**ASK, **fields})
    members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    made = chat_body(msgspec.json.decode(raw, type=MessagesRequest), members)
    return msgspec.json.decode(msgspec.json.encode(made))


def more(**fields):
    """What these fields add to a body."""
    made = body(**fields)
    return {name: value for name, value in made.items() if PLAIN.get(name) != value}


def test_the_least_request_is_the_least_chat():
    assert body() == PLAIN


def test_sampling_ends_and_the_user_are_a_chats():
    asked = {"temperature": 0.5, "top_p": 0.9, "top_k": 40}
    assert more(**asked) == asked
    assert more(stop_sequences=["END"], metadata={"user_id": "u"}) == {"stop": ["END"], "user": "u"}
    assert more(stop_sequences=[], metadata={}) == {}


def test_a_stream_is_asked_for_its_tokens_from_the_first_word_on():
    options = {"include_usage": True, "continuous_usage_stats": True}
    assert more(stream=True) == {"stream": True, "stream_options": options}
    assert more(stream=False) == {}


def test_tools_are_functions():
    function = {"name": "look", "description": "Look.", "parameters": SCHEMA}
    assert more(tools=[LOOK]) == {"tools": [{"type": "function", "function": function}]}
    strict = {**LOOK, "type": "custom", "strict": True, "cache_control": {"type": "ephemeral"}, "defer_loading": True}
    assert more(tools=[strict]) == {"tools": [{"type": "function", "function": {**function, "strict": True}}]}


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "tool", "name": "look"}, {"tool_choice": {"type": "function", "function": {"name": "look"}}}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            {"tool_choice": "required", "parallel_tool_calls": False},
        ),
    ],
)
def test_the_choice_of_a_tool(choice, told):
    assert more(tools=[LOOK], tool_choice=choice).items() >= told.items()


def test_a_choice_among_no_tools_is_none():
    assert more(tool_choice={"type": "auto"}) == {}
    with pytest.raises(Untranslatable) as caught:
        body(tool_choice={"type": "any"})
    assert caught.value.field == "tool_choice"


def test_thinking_is_a_switch_of_the_template():
    on, off = ({"enable_thinking": value, "thinking": value} for value in (True, False))
    assert more(thinking={"type": "adaptive"}) == {"chat_template_kwargs": on}
    assert more(thinking={"type": "disabled"}) == {"chat_template_kwargs": off}
    budget = {"type": "enabled", "budget_tokens": 2048, "display": "summarized"}
    assert more(thinking=budget) == {"chat_template_kwargs": on, "thinking_budget_tokens": 2048}
    own = {"enable_thinking": False}
    assert more(thinking={"type": "adaptive"}, chat_template_kwargs=own) == {"chat_template_kwargs": own}


def test_effort_and_form_of_the_answer():
    efforts = {effort: more(output_config={"effort": effort})["reasoning_effort"] for effort in ("low", "high", "max")}
    assert efforts == {"low": "low", "high": "high", "max": "high"}
    form = {"type": "json_schema", "schema": SCHEMA}
    told = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    assert more(output_config={"format": form}) == more(output_format=form) == {"response_format": told}


def test_an_answer_that_is_begun_is_continued():
    begun = {"role": "assistant", "content": "The answer is ("}
    made = body(messages=[*ASK["messages"], begun])
    assert (made["continue_final_message"], made["add_generation_prompt"]) == (True, False)
    assert made["messages"][-1] == begun


def test_fields_of_the_engine_pass_as_they_came():
    assert more(min_p=0.1, seed=7, lora=[{"id": 0}]) == {"min_p": 0.1, "seed": 7, "lora": [{"id": 0}]}


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_fields_without_effect_are_left_out(name):
    assert more(**{name: {"any": "thing"}}) == {}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_fields_that_cannot_be_honoured_are_refused_by_name(name):
    with pytest.raises(Untranslatable) as caught:
        body(**{name: 2})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, "tools[1].type"),
        ({"type": "custom", "name": "x"}, "tools[1].input_schema"),
        ({**LOOK, "allowed_callers": ["code_execution_20250825"]}, "tools[1].allowed_callers"),
    ],
)
def test_tools_that_nobody_here_can_offer_are_refused_by_name(tool, field):
    with pytest.raises(Untranslatable) as caught:
        body(tools=[LOOK, tool])
    assert caught.value.field == field


def test_a_prompt_alone_needs_no_limit():
    request = CountRequest(
        model="m", messages=msgspec.convert(ASK["messages"], CountRequest.__annotations__["messages"])
    )
    assert prompt_body(request, {}) == {"model": "m", "messages": ASK["messages"]}
