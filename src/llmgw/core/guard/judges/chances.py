"""Probabilities of verdicts, from those of the first token that is a word."""

import math
from collections.abc import Collection

from llmgw.core.guard.judges.adapter import Label
from llmgw.core.guard.judges.answer import JudgeAnswer

CONTRADICTION = 0.75
"""A verdict whose own words have less than the rest of this probability is none: words and numbers disagree."""


def chances(answer: JudgeAnswer, labels: Collection[Label]) -> dict[Label, float] | None:
    """Give the probabilities of the labels, which add up to 1; `None` where the engine told nothing about them."""
    for position in answer.positions:
        if not position.token.strip():
            continue
        sums = dict.fromkeys(labels, 0.0)
        for token, logprob in position.chances.items():
            label = _label(token, labels)
            if label is not None:
                sums[label] += math.exp(logprob)
        total = sum(sums.values())
        return {label: chance / total for label, chance in sums.items()} if total > 0 else None
    return None


def contradicts(label: Label, found: dict[Label, float] | None) -> bool:
    """Say whether an answer's words are not what its probabilities say."""
    return found is not None and found.get(label, 0.0) < 1 - CONTRADICTION


def _label(token: str, labels: Collection[Label]) -> Label | None:
    """Name the label that a token says or begins to say: tokenizers cut words, `un` is the beginning of `unsafe`."""
    words = token.split()
    if not words:
        return None
    word = words[0].lower()
    return next((label for label in labels if label.value.startswith(word)), None)
