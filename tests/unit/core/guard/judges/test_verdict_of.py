import pytest

from llmgw.core.guard.judges.adapter import Label, Reading, Unclear
from llmgw.core.guard.judges.verdict_of import verdict_of
from llmgw.schema.guard.category import Category
from llmgw.schema.guard.rule import Controversial, FailureKind
from llmgw.schema.guard.verdict import VerdictState
from llmgw.testing.guard_policies import rule

SAFE, UNSAFE, ERROR = VerdictState.SAFE, VerdictState.UNSAFE, VerdictState.ERROR


def read(label, unsafe=None, controversial=0.0, codes=(), categories=()):
    chances = None
    if unsafe is not None:
        chances = {
            Label.UNSAFE: unsafe,
            Label.CONTROVERSIAL: controversial,
            Label.SAFE: 1 - unsafe - controversial,
        }
    return Reading(label, codes, categories, chances)


@pytest.mark.parametrize(
    ("reading", "threshold", "state"),
    [
        (read(Label.SAFE), 0.5, SAFE),
        (read(Label.UNSAFE), 0.5, UNSAFE),
        (read(Label.SAFE, 0.4), 0.5, SAFE),
        (read(Label.SAFE, 0.4), 0.3, UNSAFE),
        (read(Label.UNSAFE, 0.8), 0.9, SAFE),
        (read(Label.UNSAFE, 0.95), 0.9, UNSAFE),
        (read(Label.UNSAFE, 0.49), 0.5, UNSAFE),
        (read(Label.UNSAFE), 0.9, ERROR),
        (Unclear("x"), 0.5, ERROR),
    ],
)
def test_a_threshold_decides_where_there_are_probabilities(reading, threshold, state):
    assert verdict_of(rule(threshold=threshold), reading).state is state


def test_unclear_is_an_error_and_a_threshold_without_probabilities_a_wrong_setting():
    assert verdict_of(rule(), Unclear("x")).failure is FailureKind.UNCLEAR
    assert verdict_of(rule(threshold=0.9), read(Label.SAFE)).failure is FailureKind.MISCONFIGURED


def test_unsafe_in_excluded_categories_only_is_safe():
    excluding = rule(exclude=(Category.DEFAMATION,))
    only = read(Label.UNSAFE, codes=("S5",), categories=(Category.DEFAMATION,))
    both = read(Label.UNSAFE, codes=("S5", "S1"), categories=(Category.DEFAMATION, Category.VIOLENT_CRIMES))
    assert verdict_of(excluding, only).state is SAFE
    found = verdict_of(excluding, both)
    assert (found.state, found.categories) == (UNSAFE, (Category.VIOLENT_CRIMES,))


def test_unsafe_without_categories_or_with_unknown_ones_cannot_be_excluded():
    excluding = rule(exclude=(Category.DEFAMATION,))
    assert verdict_of(excluding, read(Label.UNSAFE)).state is UNSAFE
    unknown = read(Label.UNSAFE, codes=("S5", "S99"), categories=(Category.DEFAMATION,))
    assert verdict_of(excluding, unknown).state is UNSAFE


@pytest.mark.parametrize(("counts_as", "state"), [(Controversial.UNSAFE, UNSAFE), (Controversial.SAFE, SAFE)])
def test_the_middle_level_counts_as_the_rule_says(counts_as, state):
    assert verdict_of(rule(controversial=counts_as), read(Label.CONTROVERSIAL)).state is state
    assert verdict_of(rule(controversial=counts_as), read(Label.CONTROVERSIAL, 0.2, 0.6)).state is state


def test_the_score_is_told_with_a_safe_verdict_too():
    assert verdict_of(rule(), read(Label.SAFE, 0.25)).score == 0.25
