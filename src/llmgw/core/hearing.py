"""Hearing time: a clock that stands still while this process is late, and so could not have heard anybody.

Silence is measured on it. A control plane that was stopped, starved of its processor or stuck in a long call must not
take its own absence for the death of its nodes.
"""

from llmgw.schema.value import Value

LONGEST_BEAT_S = 0.5
"""Of the time between two beats this much counts at most: beats are due twice as often. A message takes a few turns of
the loop from the socket to its stamp, so a starved loop hears late by a few times this, and no later."""


class Hearing(Value, frozen=True, kw_only=True):
    """What was heard up to the last beat. Beats are noted by the loop that hears."""

    heard_s: float
    """Seconds of hearing up to the last beat."""
    beat_at: float
    """When the last beat was, on the monotonic clock."""

    def at(self, monotonic: float) -> float:
        """Give the hearing time at a moment: a late beat counts as deafness already while it is late."""
        return self.heard_s + min(max(0.0, monotonic - self.beat_at), LONGEST_BEAT_S)

    def beat(self, monotonic: float) -> "Hearing":
        """Note that the loop turned."""
        return Hearing(heard_s=self.at(monotonic), beat_at=monotonic)
