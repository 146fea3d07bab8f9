"""How long a client that asks through the floating address goes without an answer when the leader goes away.

The client asks one question after the other, each on a connection of its own, every second one as a stream. It gives a
connection up after half a second and an answer after two: the gap is seen that finely, and no finer.
"""

import http.client
import time
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from llmgw.testing.lab.laboratory import Laboratory

CONNECT_S = 0.5
ANSWER_S = 2.0
MORE = 20
"""Answers before the leader goes away, and again afterwards."""


class How(StrEnum):
    """What happens to the leader's control plane."""

    STOP = "stop"
    KILL = "kill"
    FREEZE = "freeze"


class Gap(NamedTuple):
    """What the client saw of one change of the leader."""

    gap_s: float
    """From the last answer before to the first one after."""
    interruptions: int
    """Times at which answers ceased to come; more than one is a loss beside the gap."""
    answered: int
    failed: int


class Reconnecting:
    """Asks each time it is called, and keeps when answers came."""

    def __init__(self, ask: Callable[[], object], ask_for_stream: Callable[[], object]) -> None:
        self.answered = 0
        self.failed = 0
        self.interruptions = 0
        self.gap_s = 0.0
        self._asks = (ask, ask_for_stream)
        self._last: float | None = None
        self._fails = False

    def __call__(self) -> None:
        """Ask once. Raises what went wrong."""
        try:
            self._asks[(self.answered + self.failed) % 2]()
        except (OSError, RuntimeError, http.client.HTTPException):
            self.failed += 1
            self.interruptions += not self._fails
            self._fails = True
            raise
        now = time.monotonic()
        if self._last is not None:
            self.gap_s = max(self.gap_s, now - self._last)
        self.answered, self._last, self._fails = self.answered + 1, now, False


def gap(lab: Laboratory, how: How) -> Gap:
    """Have the leader go away, and give what a client by the floating address saw. The laboratory must be whole."""
    leader = lab.leader()
    server = lab.planes.servers[leader or ""]
    asks = [lab.chat(stream=stream, timeout_s=ANSWER_S, connect_s=CONNECT_S) for stream in (False, True)]
    client = Reconnecting(*asks)
    loop = lab.client.loop(client)
    try:
        _more(lab, client)
        {How.STOP: server.end, How.KILL: server.kill, How.FREEZE: server.freeze}[how]()
        lab.wait_for("another leader", lambda: lab.leader() not in {None, leader})
        _more(lab, client)
    finally:
        loop.stop()
        if how is How.FREEZE:
            server.thaw()
        else:
            server.start()
    return Gap(client.gap_s, client.interruptions, client.answered, client.failed)


def _more(lab: Laboratory, client: Reconnecting) -> None:
    goal = client.answered + MORE
    lab.wait_for("answers through the floating address", lambda: client.answered >= goal)
