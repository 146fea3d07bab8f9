"""What other gateways have at each replica: their last word, which ends with them."""

from collections.abc import Iterable, Mapping

from llmgw.gateway.peer_records import PeerLoad

EXPIRES_S = 3.0
"""A gateway tells its load each second, changed or not: who is silent for longer is gone, and its requests with it."""


class _Heard:
    __slots__ = ("at", "in_flight", "run", "sequence")

    def __init__(self, run: str, load: PeerLoad, at: float) -> None:
        self.run = run
        self.sequence = load.sequence
        self.in_flight: Mapping[str, int] = load.in_flight
        self.at = at


class PeerLoads:
    """Pure: clock readings come in. `at` and `now` are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._heard: dict[str, _Heard] = {}

    def take(self, gateway: str, run: str, load: PeerLoad, *, at: float) -> bool:
        """Take a gateway's word; it replaces its last one. False for one that is not newer: that changes nothing."""
        before = self._heard.get(gateway)
        if before is not None and before.run == run and load.sequence <= before.sequence:
            return False
        self._heard[gateway] = _Heard(run, load, at)
        return True

    def known(self, now: float) -> tuple[str, ...]:
        """Name the gateways whose word counts."""
        return tuple(sorted(name for name, one in self._heard.items() if now - one.at < EXPIRES_S))

    def elsewhere(self, now: float) -> dict[str, int]:
        """Give the requests of all other gateways together, by replica."""
        self._heard = {name: one for name, one in self._heard.items() if now - one.at < EXPIRES_S}
        return total(one.in_flight for one in self._heard.values())


def total(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sum up requests by replica."""
    found: dict[str, int] = {}
    for part in parts:
        for replica, count in part.items():
            found[replica] = found.get(replica, 0) + count
    return found
