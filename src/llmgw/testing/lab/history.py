"""What clients saw, and whether anything was lost: the checker behind "nothing lost" (facts on availability, 6).

A write is acknowledged, refused, or unknown: its answer did not come. An unknown one may be there, once.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from llmgw.testing.obeyed import Obeyed


class Outcome(Enum):
    """How a write ended for the client."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Lead(NamedTuple):
    """A control plane that answered as the leader, between two moments of one clock."""

    name: str
    epoch: int
    asked_at: float
    answered_at: float


class History:
    """Collects from several threads; `faults` reads it afterwards."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes: dict[str, Outcome] = {}
        self._leads: list[Lead] = []
        self._answers: Counter[str] = Counter()
        self._failures: list[str] = []

    def wrote(self, name: str, outcome: Outcome) -> None:
        """Note how a write ended; each name is written once."""
        with self._lock:
            self._writes[name] = outcome

    def led(self, lead: Lead) -> None:
        """Note who answered as the leader."""
        with self._lock:
            self._leads.append(lead)

    def answered(self, where: str) -> None:
        """Note a whole answer to an inference."""
        with self._lock:
            self._answers[where] += 1

    def failed(self, where: str, why: str) -> None:
        """Note an inference without one."""
        with self._lock:
            self._failures.append(f"{where}: {why}")

    def count(self, outcome: Outcome) -> int:
        """Count writes that ended so."""
        with self._lock:
            return sum(one is outcome for one in self._writes.values())

    def answers(self) -> int:
        """Count whole answers."""
        with self._lock:
            return sum(self._answers.values())

    def failures(self) -> tuple[str, ...]:
        """Give what went wrong with inferences."""
        with self._lock:
            return tuple(self._failures)

    def lost(self, present: Iterable[str]) -> list[str]:
        """Say what is wrong with writes, given all names that are there now; empty when nothing was lost."""
        with self._lock:
            return _lost(self._writes, list(present))

    def faults(self, present: Iterable[str]) -> list[str]:
        """Say all that is wrong, given all names that are there now."""
        lost = self.lost(present)
        with self._lock:
            return [*lost, *_epochs(self._leads)]


def obeyed_faults(noted: Iterable[Obeyed]) -> list[str]:
    """Say where nodes obeyed two holders of one epoch, or went back to a lower one."""
    found = []
    holders: dict[int, Obeyed] = {}
    last: dict[str, int] = {}
    for one in noted:
        if one.refused is not None:
            continue
        first = holders.setdefault(one.epoch, one)
        if first.holder != one.holder:
            told = f"from {first.holder} by {first.node}, from {one.holder} by {one.node}"
            found.append(f"epoch {one.epoch} was obeyed {told}")
        if one.epoch < last.get(one.node, 0):
            found.append(f"{one.node} obeyed epoch {one.epoch} after {last[one.node]}")
        last[one.node] = one.epoch
    return found


def _lost(writes: dict[str, Outcome], present: list[str]) -> list[str]:
    there = set(present)
    found = [f"{name} was acknowledged and is gone" for name, how in writes.items() if _is_lost(how, name in there)]
    found += [
        f"{name} was refused and is there" for name, how in writes.items() if how is Outcome.REFUSED and name in there
    ]
    found += [f"{name} is there {count} times" for name, count in Counter(present).items() if count > 1]
    return found + [f"{name} is there and nobody wrote it" for name in there - writes.keys()]


def _is_lost(outcome: Outcome, is_there: bool) -> bool:  # noqa: FBT001 (a fact, named by the caller)
    return outcome is Outcome.ACKNOWLEDGED and not is_there


def _epochs(leads: list[Lead]) -> list[str]:
    """Epochs belong to one holder each, and of two leaders whose times do not overlap the later has the higher."""
    found = []
    holders: dict[int, str] = {}
    highest = 0
    last: Lead | None = None
    for lead in sorted(leads, key=lambda one: one.answered_at):
        holder = holders.setdefault(lead.epoch, lead.name)
        if holder != lead.name:
            found.append(f"epoch {lead.epoch} was held by {holder} and by {lead.name}")
        if lead.epoch < highest and last is not None and lead.asked_at > last.answered_at:
            found.append(f"{lead.name} led with epoch {lead.epoch} after {last.name} with {highest}")
        if lead.epoch >= highest:
            highest, last = lead.epoch, lead
    return found
