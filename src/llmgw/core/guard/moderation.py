"""Verdicts in the words of OpenAI's moderation results, our own categories and the judges' codes beside them."""

from collections.abc import Iterable
from typing import Any

from llmgw.schema.guard.category import Category
from llmgw.schema.guard.verdict import Verdict, VerdictState

NAMES = (
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/intent",
    "self-harm/instructions",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
)
"""Categories that clients of that API know."""
_MEANING: dict[Category, tuple[str, ...]] = {
    Category.VIOLENT_CRIMES: ("violence", "illicit/violent"),
    Category.NONVIOLENT_CRIMES: ("illicit",),
    Category.SEX_CRIMES: ("sexual", "illicit/violent"),
    Category.CHILD_EXPLOITATION: ("sexual/minors",),
    Category.WEAPONS: ("illicit/violent",),
    Category.HATE: ("hate",),
    Category.SELF_HARM: ("self-harm",),
    Category.SEXUAL_CONTENT: ("sexual",),
    Category.CODE_ABUSE: ("illicit",),
    Category.UNETHICAL: ("harassment",),
}
"""The others have no like there: flagged without a category of theirs."""


def moderation_result(verdicts: Iterable[Verdict]) -> dict[str, Any]:
    """Make one result of the verdicts on one input, of which none is an error.

    Judges give one probability for all categories: each category found has it, the others have none (0, as the
    client's types want a number).
    """
    found = [verdict for verdict in verdicts if verdict.state is VerdictState.UNSAFE]
    score = max((verdict.score for verdict in found if verdict.score is not None), default=1.0 if found else 0.0)
    ours = [category for category in Category if any(category in verdict.categories for verdict in found)]
    theirs = {name for category in ours for name in _MEANING.get(category, ())}
    return {
        "flagged": bool(found),
        "categories": {name: name in theirs for name in NAMES},
        "category_scores": {name: score if name in theirs else 0.0 for name in NAMES},
        "category_applied_input_types": {name: ["text"] if name in theirs else [] for name in NAMES},
        "llmgw": {
            "score": score,
            "categories": [category.value for category in ours],
            "codes": sorted({code for verdict in found for code in verdict.codes}),
        },
    }
