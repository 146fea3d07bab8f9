"""Which replica is asked: the least loaded, counted at selection; ties by rendezvous, so that a conversation stays."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar


class Candidate(Protocol):
    """What a choice looks at."""

    in_flight: int
    slots: int | None
    seed: int
    ejected_until: float


C = TypeVar("C", bound=Candidate)


def choose(candidates: Iterable[C], *, affinity: int, now: float, usable: Callable[[C], bool]) -> C | None:
    """Give the usable candidate with the least load; `affinity` decides between equals, the same way everywhere.

    A candidate that failed lately is taken only when there is no other: half a chance beats none.
    """
    best: C | None = None
    best_rank: tuple[bool, float, int] | None = None
    for candidate in candidates:
        if not usable(candidate):
            continue
        load = candidate.in_flight / (candidate.slots or 1)
        rank = (candidate.ejected_until > now, load, hash((affinity, candidate.seed)))
        if best_rank is None or rank < best_rank:
            best, best_rank = candidate, rank
    return best
