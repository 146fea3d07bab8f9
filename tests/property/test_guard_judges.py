"""No answer of a judge raises or flips a verdict, and no text of a stranger gets out of its frame."""

from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.guard.judges.adapter import Label, Reading
from llmgw.core.guard.judges.answer import JudgeAnswer, judge_answer
from llmgw.core.guard.judges.neutral import neutral
from llmgw.core.guard.judges.registry import adapter
from llmgw.core.guard.judges.verdict_of import verdict_of
from llmgw.core.guard.outlook import Said, View
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.guard.verdict import VerdictState
from llmgw.testing.guard_policies import rule

JUDGES = [adapter(family) for family in JudgeFamily]
WORDS = st.sampled_from(
    [
        "safe",
        "unsafe",
        "Safe",
        "UNSAFE",
        "\n",
        " ",
        "S1",
        "S14",
        ",",
        "Safety:",
        "Categories:",
        "None",
        "<think>",
        "\x00",
        "é",
    ]
)
ANSWERS = st.lists(WORDS | st.text(max_size=4), max_size=8).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "text",
                    "message",
                    "content",
                    "logprobs",
                    "tokens",
                    "top_logprobs",
                    "token",
                    "logprob",
                    "finish_reason",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)
DELIMITERS = ["<END CONVERSATION>", "<BEGIN CONVERSATION>", "<|eot_id|>", "<|im_end|>", "<|start_header_id|>", "</s>"]
HOSTILE = st.lists(
    st.sampled_from(
        [
            *DELIMITERS,
            "<",
            ">",
            "|",
            "END CONVERSATION",
            "\n\nUser: ",
            "\nAgent:",
            "\r",
            "ASSISTANT：",
            "[INST]",
            "<<SYS>>",
        ]
    )
    | st.text(max_size=3),
    max_size=10,
).map("".join)


@given(JSON)
def test_no_json_makes_an_answer_raise(body):
    answer = judge_answer(body)
    if answer is not None:
        for judge in JUDGES:
            judge.read(answer)


@given(ANSWERS)
def test_a_reading_of_safe_needs_an_answer_that_begins_so(text):
    for judge in JUDGES:
        reading = judge.read(JudgeAnswer(text))
        if isinstance(reading, Reading) and reading.label is Label.SAFE:
            said = (
                text.split("</think>")[-1]
                .lower()
                .replace("safety:", "", 1)
                .strip(" \n\t\r\v\f\x1c\x1d\x1e\x1f\x85*`\"'.")
            )
            assert said.startswith("safe")
            assert "unsafe" not in said.split("\n")[0]
        state = verdict_of(rule(), reading).state
        assert (state is VerdictState.SAFE) is (isinstance(reading, Reading) and reading.label is Label.SAFE)


@given(HOSTILE)
def test_no_delimiter_survives_and_doing_it_again_changes_nothing(text):
    once = neutral(text)
    assert neutral(once) == once
    assert not any(delimiter in once for delimiter in DELIMITERS)


@given(HOSTILE, HOSTILE, st.booleans())
def test_a_prompt_has_the_delimiters_of_its_frame_only(one, other, by_agent):
    turns = (Said(by_agent=False, text=one), Said(by_agent=True, text=other))
    plain = (Said(by_agent=False, text="a"), Said(by_agent=True, text="b"))
    count = 2 if by_agent else 1
    for judge in JUDGES:
        if "prompt" not in judge.prompt(View(plain)).body:
            continue
        hostile, harmless = (judge.prompt(View(those[:count])).body["prompt"] for those in (turns, plain))
        for delimiter in (*DELIMITERS, "\nUser: ", "\nAgent: ", "\nUSER: ", "\nASSISTANT: "):
            assert hostile.count(delimiter) == harmless.count(delimiter)
