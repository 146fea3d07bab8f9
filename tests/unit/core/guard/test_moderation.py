import pytest

from llmgw.core.guard.moderation import NAMES, moderation_result
from llmgw.schema.guard.category import Category
from llmgw.schema.guard.verdict import Verdict, VerdictState, safe


def unsafe(*categories, score=0.9, codes=()):
    return Verdict(state=VerdictState.UNSAFE, score=score, categories=categories, codes=codes)


def test_safe_is_not_flagged():
    result = moderation_result([safe(score=0.2)])
    assert result["flagged"] is False
    assert not any(result["categories"].values())
    assert set(result["category_scores"]) == set(NAMES)


def test_categories_are_told_in_the_clients_words_and_in_ours():
    result = moderation_result([unsafe(Category.WEAPONS, Category.HATE, codes=("S9", "S10")), safe()])
    assert result["flagged"] is True
    assert {name for name, is_it in result["categories"].items() if is_it} == {"illicit/violent", "hate"}
    assert result["category_scores"]["hate"] == 0.9
    assert result["llmgw"] == {"score": 0.9, "categories": ["weapons", "hate"], "codes": ["S10", "S9"]}


@pytest.mark.parametrize("category", Category)
def test_every_category_is_flagged_even_where_clients_have_no_word_for_it(category):
    assert moderation_result([unsafe(category, score=None)])["flagged"] is True
