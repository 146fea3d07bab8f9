"""How far the counters that an agent tells may be from ours: beyond that they are forged, or of another cluster."""

EPOCHS_AHEAD = 1_000_000
"""A lease that changed hands every ten seconds would need four months to get so far, and a store that was restored
from a backup is behind its agents by far less."""
MOST_GENERATIONS = 2**53
"""What every reader of JSON can tell apart; far below the database's largest number."""


def doubt(*, epoch: int, generation: int, ours: int) -> str | None:
    """Say why what an agent says it obeyed cannot be; `None`: it can. `ours`: our epoch."""
    if not 0 <= epoch <= ours + EPOCHS_AHEAD:
        return f"no leader of this cluster can have had epoch {epoch}: it is at {ours}"
    if not 0 <= generation <= MOST_GENERATIONS:
        return f"no order can have had generation {generation}"
    return None
