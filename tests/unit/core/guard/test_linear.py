import time

import pytest

from llmgw.core.guard.linear import MAX_FOUND, BadPattern, Pattern


def test_places_are_counted_in_characters_not_in_bytes():
    assert list(Pattern("b+").places("äöü bb 😀 b")) == [(4, 6), (9, 10)]


def test_the_first_group_is_the_place_that_counts():
    assert list(Pattern(r"key=(\w+)").places("a key=abc")) == [(6, 9)]


def test_a_group_that_took_no_part_leaves_the_whole_match():
    assert list(Pattern(r"x(y)?").places("x")) == [(0, 1)]


@pytest.mark.parametrize("expression", ["(", r"(?=a)b", r"(a)\1", "[", "a*", "", "(?:a{1000}){1000}", "\ud800"])
def test_a_pattern_that_cannot_be_used_says_why(expression):
    with pytest.raises(BadPattern) as caught:
        Pattern(expression)
    assert str(caught.value)


def test_lone_halves_of_surrogate_pairs_neither_break_nor_shift():
    assert list(Pattern("secret").places("\ud83d secret")) == [(2, 8)]


@pytest.mark.parametrize("expression", [r"(a+)+$", r"(a|aa)+b", r"(.*a){12}b", r"a?" * 30 + "a" * 30 + "b"])
def test_patterns_that_hang_other_engines_take_no_time(expression):
    started = time.process_time()
    assert not Pattern(expression).found("a" * 100_000 + "!")
    assert time.process_time() - started < 5


def test_a_text_with_too_many_places_is_one_place_from_there_on():
    places = list(Pattern("a").places("ab" * (MAX_FOUND + 50)))
    assert len(places) == MAX_FOUND + 1
    assert places[-1] == (2 * MAX_FOUND, 2 * (MAX_FOUND + 50))
