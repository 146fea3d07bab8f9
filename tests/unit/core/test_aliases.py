from collections import Counter
from datetime import UTC, datetime

from llmgw.core.aliases import models_of, reachable
from llmgw.schema.alias import Alias, Share

AT = datetime(2026, 1, 2, tzinfo=UTC)
ALL = {"old", "new", "next", "last"}


def an_alias(*, fallbacks=(), **weights):
    shares = tuple(Share(model=model, weight=weight) for model, weight in weights.items())
    return Alias(name="chat", shares=shares, fallbacks=fallbacks, changed_at=AT)


def chosen(alias, keys=range(20_000), known=ALL):
    return [models_of(alias, key, known=known)[0] for key in keys]


def test_requests_are_shared_by_weight_whatever_the_keys_look_like():
    for keys in (range(20_000), range(0, 2_000_000_000, 100_000), range(2**32 - 20_000, 2**32)):
        counts = Counter(chosen(an_alias(old=9, new=1), keys))
        assert 0.09 < counts["new"] / len(keys) < 0.11


def test_a_key_stays_where_it_is_and_when_a_weight_changes_only_as_many_move_as_it_says():
    before, after = chosen(an_alias(old=9, new=1)), chosen(an_alias(old=8, new=2))
    assert before == chosen(an_alias(old=9, new=1))
    moved = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert set(moved) == {("old", "new")}
    assert 0.09 < len(moved) / len(before) < 0.11


def test_what_is_not_there_is_passed_over_and_its_weight_goes_to_the_others():
    alias = an_alias(old=9, new=1, fallbacks=("gone", "next", "last"))
    assert set(chosen(alias, known={"new", "next"})) == {"new"}
    assert models_of(alias, 1, known={"new", "next", "last"}) == ("new", "next", "last")
    assert models_of(alias, 1, known={"last"}) == ("last",)
    assert models_of(alias, 1, known=set()) == ()


def test_all_that_may_answer_are_named_once():
    assert reachable(an_alias(old=1, new=1, fallbacks=("old", "next"))) == ("old", "new", "next")
