from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from llmgw.core.prefix import BLOCK_BYTES, BelievedCache, chain_of
from llmgw.core.routing import BETA_BUSY, BETA_IDLE, Prompt, beta, busy_s, choose, prompt_of
from llmgw.schema.model import Routing


@dataclass
class Candidate:
    seed: int
    load: int = 0
    slots: int | None = None
    queued: float = 0.0
    rate: float | None = None
    fill: float | None = None
    ejected_until: float = 0.0
    cache: BelievedCache = field(default_factory=BelievedCache)


def prompt(text: bytes, blocks: int = 64) -> Prompt:
    data = text * (blocks * BLOCK_BYTES // len(text))
    return prompt_of(data, chain_of(data, salt=0), short=0)


def pick(candidates, asked=None, *, affinity=1, now=100.0, usable=lambda _: True, **more):
    return choose(candidates, asked or Prompt(affinity=affinity), now=now, usable=usable, **more)


def test_the_least_loaded_is_chosen_where_prompts_are_short():
    assert pick([Candidate(1, 3), Candidate(2, 1), Candidate(3, 2)]).seed == 2


def test_load_is_measured_against_slots():
    assert pick([Candidate(1, 2, slots=8), Candidate(2, 1, slots=2)]).seed == 1


def test_a_warm_cache_is_worth_some_load_and_some_waiting_and_not_any():
    asked = prompt(b"ab")
    warm, cold = Candidate(1, 3), Candidate(2)
    warm.cache.add(asked.chain)
    assert pick([warm, cold], asked) is warm
    warm.queued = asked.size
    assert pick([warm, cold], asked) is warm
    warm.queued = 10 * asked.size
    assert pick([warm, cold], asked) is cold
    warm.queued, warm.load = 0, 500
    assert pick([warm, cold], asked) is cold


def test_the_deeper_of_two_warm_caches_is_better():
    asked = prompt(b"ab")
    deep, shallow = Candidate(1), Candidate(2)
    deep.cache.add(asked.chain[:48])
    shallow.cache.add(asked.chain[:16])
    assert pick([shallow, deep], asked) is deep


def test_work_takes_as_long_as_the_replica_is_slow():
    asked = prompt(b"ab")
    fast, slow = Candidate(1, rate=100_000.0, queued=asked.size), Candidate(2, rate=1_000.0)
    assert pick([slow, fast], asked) is fast


def test_a_replica_whose_speed_is_unknown_is_taken_for_as_fast_as_the_others():
    asked = prompt(b"ab")
    known, unknown = Candidate(1, rate=50.0, queued=1.0), Candidate(2)
    assert pick([known, unknown], asked, usual=asked.size) in (known, unknown)
    known.queued = asked.size
    assert pick([known, unknown], asked) is unknown


def test_a_replica_whose_cache_is_full_costs_more_and_an_unknown_one_nothing():
    assert busy_s(Candidate(1)) == 0
    assert busy_s(Candidate(1, fill=0.9)) == pytest.approx(9 * busy_s(Candidate(1, fill=0.5)))
    assert pick([Candidate(1, fill=0.9), Candidate(2)]).seed == 2


def test_own_work_weighs_more_the_more_is_queued():
    assert beta(0, usual=1000) == BETA_IDLE
    assert BETA_IDLE < beta(500, usual=1000) < BETA_BUSY
    assert beta(5000, usual=1000) == BETA_BUSY


def test_nobody_usable_is_nobody():
    assert pick([Candidate(1)], usable=lambda _: False) is None
    assert pick([]) is None


@pytest.mark.parametrize("routing", list(Routing))
def test_one_that_failed_lately_is_taken_only_when_there_is_no_other(routing):
    sick = Candidate(1, 0, ejected_until=101.0)
    other = Candidate(2, 9)
    assert all(pick([sick, other], affinity=n, turn=n, routing=routing) is other for n in range(8))
    assert pick([sick], routing=routing) is sick
    assert pick([sick, other], now=102.0) is sick


@pytest.mark.parametrize("routing", [Routing.PREFIX, Routing.LEAST_LOADED, Routing.SESSION])
def test_equals_are_told_apart_by_affinity_evenly_and_the_same_way_every_time(routing):
    candidates = [Candidate(seed) for seed in (11, 22, 33, 44)]
    chosen = [pick(candidates, affinity=affinity, routing=routing).seed for affinity in range(4000)]
    again = [pick(candidates[::-1], affinity=affinity, routing=routing).seed for affinity in range(4000)]
    assert chosen == again
    assert min(chosen.count(candidate.seed) for candidate in candidates) > 800


def test_when_a_candidate_goes_only_its_own_prompts_move():
    candidates = [Candidate(seed) for seed in (11, 22, 33, 44)]
    before = [pick(candidates, affinity=affinity).seed for affinity in range(500)]
    after = [pick(candidates[1:], affinity=affinity).seed for affinity in range(500)]
    assert all(old in (new, 11) for old, new in zip(before, after, strict=True))
    assert any(one != two for one, two in pairwise(after))


def test_speeds_that_differ_less_than_they_can_be_told_apart_decide_nothing():
    asked = prompt(b"ab")
    fast = Candidate(11, rate=101_000.0)
    candidates = [fast, Candidate(22, rate=100_000.0), Candidate(33, rate=99_000.0)]
    chosen = {pick(candidates, Prompt(size=asked.size, affinity=n)).seed for n in range(50)}
    assert chosen == {11, 22, 33}


def test_a_session_stays_whatever_the_load_and_a_round_takes_everybody_in_turn():
    candidates = [Candidate(seed) for seed in (11, 22, 33)]
    home = pick(candidates, affinity=7, routing=Routing.SESSION)
    home.load = 50
    assert pick(candidates, affinity=7, routing=Routing.SESSION) is home
    turns = [pick(candidates, turn=turn, routing=Routing.ROUND_ROBIN).seed for turn in range(6)]
    assert turns == [11, 22, 33, 11, 22, 33]


def test_the_least_loaded_is_chosen_whatever_is_warm_where_the_model_says_so():
    asked = prompt(b"ab")
    warm, cold = Candidate(1, 2), Candidate(2, 1)
    warm.cache.add(asked.chain)
    assert pick([warm, cold], asked, routing=Routing.LEAST_LOADED) is cold


def test_prompts_with_the_same_beginning_have_the_same_affinity():
    one, other = prompt(b"ab", 64), prompt(b"ab", 32)
    assert one.affinity == other.affinity != prompt(b"xy").affinity
    assert prompt_of(b"short", (), short=3).affinity == 3
