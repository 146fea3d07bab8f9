import pytest

from llmgw.core.guard.limits import Size, input_verdict, length_verdict, model_verdict, shape_verdict
from llmgw.schema.guard.rule import Limits
from llmgw.schema.guard.verdict import VerdictState

SAFE, UNSAFE = VerdictState.SAFE, VerdictState.UNSAFE


@pytest.mark.parametrize(
    ("limits", "state"),
    [
        (Limits(), SAFE),
        (Limits(max_characters=10, max_messages=2, max_tools=1), SAFE),
        (Limits(max_characters=9), UNSAFE),
        (Limits(max_messages=1), UNSAFE),
        (Limits(max_tools=0), UNSAFE),
    ],
)
def test_a_request_is_held_against_each_limit(limits, state):
    assert input_verdict(limits, Size(characters=10, messages=2, tools=1)).state is state


def test_an_answer_is_too_long_as_soon_as_it_is():
    assert length_verdict(Limits(max_characters=3), 3).state is SAFE
    assert length_verdict(Limits(max_characters=3), 4).state is UNSAFE


@pytest.mark.parametrize(
    ("answer", "state"),
    [('{"a": 1}', SAFE), ('{"a": "x"}', UNSAFE), ("no JSON", UNSAFE), ("", UNSAFE), ("[" * 100_000, UNSAFE)],
)
def test_an_answer_is_held_against_its_shape(answer, state):
    limits = Limits(json_schema={"properties": {"a": {"type": "number"}}})
    assert shape_verdict(limits, answer).state is state


def test_without_a_shape_any_answer_will_do():
    assert shape_verdict(Limits(max_characters=1), "").state is SAFE


def test_a_model_that_is_not_allowed_is_a_finding_that_does_not_name_others():
    assert model_verdict(("a",), ("a",)).state is SAFE
    assert model_verdict(("a",), ("a", "b")).codes == ("allow_models",)
