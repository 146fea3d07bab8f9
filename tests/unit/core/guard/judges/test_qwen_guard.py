import pytest

from llmgw.core.guard.judges.adapter import Label, Unclear
from llmgw.core.guard.judges.answer import JudgeAnswer, Position
from llmgw.core.guard.judges.qwen_guard import Qwen3GuardGen
from llmgw.core.guard.outlook import Said, View
from llmgw.schema.guard.category import Category

JUDGE = Qwen3GuardGen()


@pytest.mark.parametrize(
    ("text", "label", "categories"),
    [
        (" Safe\nCategories: None", Label.SAFE, ()),
        ("Safety: Safe\nCategories: None\nRefusal: No", Label.SAFE, ()),
        (" Unsafe\nCategories: Violent", Label.UNSAFE, (Category.VIOLENT_CRIMES,)),
        (
            " Controversial\nCategories: PII, Politically Sensitive Topics.",
            Label.CONTROVERSIAL,
            (Category.PRIVACY, Category.POLITICS),
        ),
        (" Unsafe", Label.UNSAFE, ()),
    ],
)
def test_verdicts_as_they_were_seen_are_read(text, label, categories):
    reading = JUDGE.read(JudgeAnswer(text))
    assert (reading.label, reading.categories) == (label, categories)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "Safety:",
        " fine",
        " Safe or Unsafe",
        " Safe\nCategories: Violent",
        " Safe\nSafety: Unsafe",
        "Categories: None",
    ],
)
def test_anything_else_is_unclear_and_never_safe(text):
    assert isinstance(JUDGE.read(JudgeAnswer(text)), Unclear)


def test_three_levels_have_three_probabilities():
    position = Position(" Cont", {" Cont": -0.7, " Unsafe": -1.2, " Safe": -1.6})
    reading = JUDGE.read(JudgeAnswer(" Controversial\nCategories: Unethical Acts", "stop", (position,)))
    assert reading.chances[Label.CONTROVERSIAL] > reading.chances[Label.UNSAFE] > reading.chances[Label.SAFE]
    assert sum(reading.chances.values()) == pytest.approx(1)


def test_jailbreak_is_a_category_of_requests_only():
    user = View((Said(by_agent=False, text="q"),))
    agent = View((*user.turns, Said(by_agent=True, text="a")))
    assert "Jailbreak." in JUDGE.prompt(user).body["prompt"]
    assert "Jailbreak." not in JUDGE.prompt(agent).body["prompt"]
    assert JUDGE.prompt(agent).body["prompt"].endswith("</think>\n\nSafety:")
