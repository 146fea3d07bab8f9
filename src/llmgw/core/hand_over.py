"""Whether a leader that lost sight of its agents hands the lead to a standby they reach. Pure; each refusal is data.

An agent without a stream asks every control plane it knows, and a standby sends it to the leader. So an agent that
keeps asking a standby reaches that one and not the leader: fresh evidence that the network between this leader and the
agents is broken, and not the agents. An agent that asks nobody is evidence of nothing.
"""

from enum import StrEnum

from llmgw.schema.hand_over import StandbyWord
from llmgw.schema.value import Value

SHARE = 10
"""A leader is blind with no more than a tenth of the nodes. It stays with more: those may reach nobody else."""
SETTLE_S = 30.0
"""So long after it began to lead a leader hands nothing over: agents are still on their way to it."""
BLIND_S = 10.0
"""How long a leader bears being blind, the first time: an agent that reaches it is back within two or three seconds."""
BARRED_S = 60.0
"""How long who gave the lead away is not given it back, the first time."""
LONGEST_S = 30 * 60.0
"""Bound of what doubles with each hand-over."""
REMEMBERED_S = 3600.0
"""How long a hand-over counts."""


class Keep(StrEnum):
    """Why a leader keeps the lead."""

    HAS_ENOUGH = "it has more than a tenth of the nodes"
    JUST_BEGAN = "it has not led for long"
    NOT_FOR_LONG = "its agents have not been away for long"
    NOBODY_STANDS_BY = "no other control plane answers"
    NOBODY_MAY = "no other control plane could take it"
    NOBODY_BETTER = "no other control plane is asked by nine times as many nodes"


class Sight(Value, frozen=True, kw_only=True):
    """What a leader knows. Seconds are hearing time: they stand still while this process could not hear anybody."""

    known: frozenset[str]
    """All nodes of the fleet."""
    connected: frozenset[str]
    """Those with a stream here."""
    leading_s: float
    blind_s: float
    """How long it has been blind without a break; 0 when it is not."""
    handed: int = 0
    """How often it handed over within the last hour."""
    words: tuple[StandbyWord, ...] = ()
    """What the other control planes say that answer."""


class HandOver(Value, frozen=True, kw_only=True):
    """The lead goes to another control plane."""

    to: str
    nodes: frozenset[str]
    """Those it will have that this leader has not."""
    wait: tuple[str, ...]
    """Control planes that would be no better than this one: they are to leave the lease alone for a moment."""


def blind(known: frozenset[str], connected: frozenset[str]) -> bool:
    """True for a leader with no more than a tenth of the nodes there are."""
    return bool(known) and len(known & connected) * SHARE <= len(known)


def decide(sight: Sight) -> HandOver | Keep:
    """Hand the lead to who is asked by the most agents that this leader lacks, or say why not."""
    if not blind(sight.known, sight.connected):
        return Keep.HAS_ENOUGH
    if sight.leading_s < SETTLE_S:
        return Keep.JUST_BEGAN
    if sight.blind_s < patience_s(sight.handed):
        return Keep.NOT_FOR_LONG
    if not sight.words:
        return Keep.NOBODY_STANDS_BY
    able = [word for word in sight.words if word.may_lead]
    if not able:
        return Keep.NOBODY_MAY
    better = {word.name: gained for word in able if _is_better(gained := _gained(word, sight), sight)}
    if not better:
        return Keep.NOBODY_BETTER
    to = min(better, key=lambda name: (-len(better[name]), name))
    wait = tuple(sorted(word.name for word in sight.words if word.name not in better))
    return HandOver(to=to, nodes=better[to], wait=wait)


def patience_s(handed: int) -> float:
    """Seconds of blindness a leader bears after so many hand-overs of its own: each doubles it."""
    return min(BLIND_S * 2.0**handed, LONGEST_S)


def barred_s(handed: int) -> float:
    """Seconds for which nobody hands the lead to who handed it over so many times; the lease it may take all the same.

    So a lead cannot go back and forth: whoever gave it away is not offered it again, for longer each time.
    """
    return min(BARRED_S * 2.0 ** (handed - 1), LONGEST_S) if handed else 0.0


def _gained(word: StandbyWord, sight: Sight) -> frozenset[str]:
    return (word.nodes & sight.known) - sight.connected


def _is_better(gained: frozenset[str], sight: Sight) -> bool:
    kept = len(sight.known & sight.connected)
    return len(gained) >= max(1, kept * (SHARE - 1))
