import math

import pytest

from llmgw.core.guard.judges.adapter import Label
from llmgw.core.guard.judges.answer import JudgeAnswer, Position, judge_answer
from llmgw.core.guard.judges.chances import chances, contradicts

LLAMACPP = {
    "choices": [
        {
            "text": "unsafe\nS9",
            "finish_reason": "stop",
            "logprobs": {
                "content": [
                    {
                        "id": 1,
                        "token": "unsafe",
                        "bytes": [117],
                        "logprob": -0.1,
                        "top_logprobs": [
                            {"id": 1, "token": "unsafe", "bytes": [117], "logprob": -0.1},
                            {"id": 2, "token": "safe", "bytes": [115], "logprob": -2.4},
                        ],
                    }
                ]
            },
        }
    ]
}
VLLM = {
    "choices": [
        {
            "text": "\n\nsafe",
            "finish_reason": "stop",
            "logprobs": {
                "tokens": ["\n\n", "safe"],
                "token_logprobs": [-0.01, -0.2],
                "top_logprobs": [{"\n\n": -0.01}, {"safe": -0.2, "unsafe": -1.8, "Safe": -7.0}],
                "text_offset": [0, 2],
            },
        }
    ]
}
CHAT = {"choices": [{"message": {"role": "assistant", "content": "safe"}, "finish_reason": "stop", "logprobs": None}]}


def test_raw_answers_of_llamacpp_are_read():
    answer = judge_answer(LLAMACPP)
    assert (answer.text, answer.finish) == ("unsafe\nS9", "stop")
    assert answer.positions == (Position("unsafe", {"unsafe": -0.1, "safe": -2.4}),)


def test_raw_answers_of_vllm_are_read_and_line_breaks_passed_over():
    found = chances(judge_answer(VLLM), (Label.SAFE, Label.UNSAFE))
    safe = math.exp(-0.2) + math.exp(-7)
    assert found[Label.UNSAFE] == pytest.approx(math.exp(-1.8) / (safe + math.exp(-1.8)))


def test_chat_answers_are_read():
    assert judge_answer(CHAT) == JudgeAnswer("safe", "stop", ())


@pytest.mark.parametrize(
    "body",
    [
        None,
        7,
        "safe",
        [],
        {},
        {"choices": []},
        {"choices": "safe"},
        {"choices": [None]},
        {"choices": [{"text": 7}]},
        {"choices": [{"message": "safe"}]},
        {"error": {"message": "no"}},
    ],
)
def test_what_is_no_answer_is_none(body):
    assert judge_answer(body) is None


@pytest.mark.parametrize(
    "logprobs",
    [
        7,
        [],
        {"content": [7, {"token": 7}, {"token": "safe", "logprob": None, "top_logprobs": [{"token": "safe"}, 7]}]},
        {"tokens": ["safe"], "top_logprobs": [None]},
        {"tokens": ["safe"], "top_logprobs": []},
        {"content": [{"token": "safe", "logprob": math.nan, "top_logprobs": [{"token": "x", "logprob": True}]}]},
    ],
)
def test_damaged_probabilities_are_none(logprobs):
    answer = judge_answer({"choices": [{"text": "safe", "logprobs": logprobs}]})
    assert answer.text == "safe"
    assert chances(answer, (Label.SAFE, Label.UNSAFE)) is None


def test_a_token_may_be_the_beginning_of_a_word():
    answer = JudgeAnswer("unsafe", None, (Position("un", {"un": -0.1, " Safe": -2.0, "the": -1.0}),))
    found = chances(answer, (Label.SAFE, Label.UNSAFE))
    assert found[Label.UNSAFE] > 0.8


def test_words_without_probability_contradict():
    assert contradicts(Label.SAFE, {Label.SAFE: 0.2, Label.UNSAFE: 0.8})
    assert not contradicts(Label.SAFE, {Label.SAFE: 0.4, Label.UNSAFE: 0.6})
    assert not contradicts(Label.SAFE, None)
