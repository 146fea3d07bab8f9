import pytest

from llmgw.core.messages.ending import Stop, Tokens, stop_of, tokens_of, usage_body
from llmgw.schema.openai.chat_answer import MessageChoice, Timings
from llmgw.schema.openai.usage import PromptTokensDetails, Usage


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("function_call", "tool_use"),
        ("content_filter", "refusal"),
        ("some_engines_own", "end_turn"),
    ],
)
def test_each_finish_reason_is_a_stop_reason(finish, reason):
    assert stop_of(MessageChoice(finish_reason=finish), called=False) == Stop(reason, None)


def test_an_answer_that_calls_a_tool_ends_for_the_tool():
    assert stop_of(MessageChoice(finish_reason="stop"), called=True).reason == "tool_use"
    assert stop_of(MessageChoice(finish_reason="length"), called=True).reason == "max_tokens"


def test_a_stop_sequence_is_told_where_the_engine_tells_it():
    for told in ({"stop_reason": "END"}, {"matched_stop": "END"}):
        assert stop_of(MessageChoice(finish_reason="stop", **told), called=False) == Stop("stop_sequence", "END")
    assert stop_of(MessageChoice(finish_reason="stop", stop_reason=128001), called=False) == Stop("end_turn", None)


def test_tokens_are_the_engines_own():
    usage = Usage(prompt_tokens=9, completion_tokens=3, prompt_tokens_details=PromptTokensDetails(cached_tokens=5))
    assert tokens_of(usage) == Tokens(9, 5, 3)
    assert tokens_of(None, Timings(cache_n=5, prompt_n=4, predicted_n=1)) == Tokens(9, 5, 1)
    assert tokens_of(None, Timings()) is None
    assert tokens_of(None) is None


def test_input_and_cache_add_up_to_the_prompt():
    assert usage_body(Tokens(9, 5, 3)) == {
        "input_tokens": 4,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 5,
        "output_tokens": 3,
    }


def test_what_is_not_known_is_null_and_never_zero():
    told = usage_body(Tokens(9, None, 3))
    assert (told["input_tokens"], told["cache_read_input_tokens"]) == (9, None)
    assert usage_body(Tokens())["input_tokens"] is None
    assert usage_body(Tokens())["output_tokens"] is None
