"""Which replica is asked: the least loaded, counted at selection; ties by rendezvous, so that a conversation stays."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

_WORD = (1 << 64) - 1


class Candidate(Protocol):
    """What a choice looks at."""

    load: int
    slots: int | None
    seed: int
    ejected_until: float


C = TypeVar("C", bound=Candidate)


def choose(candidates: Iterable[C], *, affinity: int, now: float, usable: Callable[[C], bool]) -> C | None:
    """Give the usable candidate with the least load; `affinity` decides between equals, the same way everywhere.

    A candidate that failed lately is taken only when there is no other: half a chance beats none.
    """
    best: C | None = None
    best_rank = (True, 0.0)
    for candidate in candidates:
        if not usable(candidate):
            continue
        rank = (candidate.ejected_until > now, candidate.load / (candidate.slots or 1))
        if best is None or rank < best_rank:
            best, best_rank = candidate, rank
        elif rank == best_rank and _weight(candidate.seed, affinity) > _weight(best.seed, affinity):
            best = candidate
    return best


def _weight(seed: int, affinity: int) -> int:
    """Mix two numbers into one of 64 evenly spread bits (the finaliser of SplitMix64)."""
    word = (seed ^ affinity * 0x9E3779B97F4A7C15) & _WORD
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & _WORD
    return word ^ word >> 31
