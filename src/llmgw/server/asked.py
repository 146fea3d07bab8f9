"""Agents that asked this control plane to take them on while it stood by: evidence that they reach it."""

from llmgw.ports import Clock

LATELY_S = 15.0
"""How long a question is fresh. An agent whose leader does not answer asks again within about nine seconds: three for
the dial that hangs, two at each of two standbys that let it wait, two between two rounds."""
MOST = 20_000
"""Nodes remembered at once; far more than one control plane leads."""


class Asked:
    """Who asked lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: dict[str, float] = {}

    def note(self, node: str) -> None:
        """An agent asks now."""
        if node not in self._at and len(self._at) >= MOST:
            self._prune()
        if node in self._at or len(self._at) < MOST:
            self._at[node] = self._clock.monotonic()

    def lately(self) -> frozenset[str]:
        """Name the nodes whose agents asked within the last seconds."""
        self._prune()
        return frozenset(self._at)

    def forget(self) -> None:
        """Forget all: this control plane leads now."""
        self._at.clear()

    def _prune(self) -> None:
        oldest = self._clock.monotonic() - LATELY_S
        self._at = {node: at for node, at in self._at.items() if at >= oldest}
