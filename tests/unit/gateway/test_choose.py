from dataclasses import dataclass
from itertools import pairwise

from llmgw.gateway.choose import choose


@dataclass
class Candidate:
    seed: int
    load: int = 0
    slots: int | None = None
    ejected_until: float = 0.0


def pick(candidates, *, affinity=1, now=100.0, usable=lambda _: True):
    return choose(candidates, affinity=affinity, now=now, usable=usable)


def test_the_least_loaded_is_chosen():
    assert pick([Candidate(1, 3), Candidate(2, 1), Candidate(3, 2)]).seed == 2


def test_load_is_measured_against_slots():
    assert pick([Candidate(1, 2, slots=8), Candidate(2, 1, slots=2)]).seed == 1


def test_nobody_usable_is_nobody():
    assert pick([Candidate(1)], usable=lambda _: False) is None
    assert pick([]) is None


def test_one_that_failed_lately_is_taken_only_when_there_is_no_other():
    sick = Candidate(1, 0, ejected_until=101.0)
    assert pick([sick, Candidate(2, 9)]).seed == 2
    assert pick([sick]) is sick
    assert pick([sick, Candidate(2, 9)], now=102.0) is sick


def test_equals_are_told_apart_by_affinity_evenly_and_the_same_way_every_time():
    candidates = [Candidate(seed) for seed in (11, 22, 33, 44)]
    chosen = [pick(candidates, affinity=affinity).seed for affinity in range(4000)]
    assert chosen == [pick(candidates[::-1], affinity=affinity).seed for affinity in range(4000)]
    shares = [chosen.count(candidate.seed) for candidate in candidates]
    assert min(shares) > 800


def test_when_a_candidate_goes_only_its_own_prompts_move():
    candidates = [Candidate(seed) for seed in (11, 22, 33, 44)]
    before = [pick(candidates, affinity=affinity).seed for affinity in range(500)]
    after = [pick(candidates[1:], affinity=affinity).seed for affinity in range(500)]
    assert all(old in (new, 11) for old, new in zip(before, after, strict=True))
    assert any(one != two for one, two in pairwise(after))
