"""What a worker tells of its requests, for other workers and other gateways: nothing while nothing happens."""

import asyncio
from collections.abc import Callable, Iterable

from llmgw.core.prefix import packed
from llmgw.gateway.place import Place
from llmgw.gateway.routes_view import Target
from llmgw.gateway.worker_link import NewlyPlaced, Placed, WorkerLoad

TELL_S = 0.02
"""Least time between two tellings. Choices by what is older get worse by the tenth of a second (facts on routing)."""


class News:
    """One worker's. `targets` gives its replicas; `send` takes messages to the master."""

    def __init__(self, targets: Callable[[], Iterable[Target]], send: Callable[[object], None]) -> None:
        self._targets = targets
        self._send = send
        self._placed: list[Place] = []
        self._said = WorkerLoad()
        self._timer: asyncio.TimerHandle | None = None

    def placed(self, place: Place) -> None:
        """Note that a place was taken."""
        if place.news:
            self._placed.append(place)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TELL_S, self._tell)

    def close(self) -> None:
        """Tell no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self) -> None:
        if self._placed:
            placed = tuple(Placed(replica=one.target.id, chain=packed(one.prompt.chain)) for one in self._placed)
            self._send(NewlyPlaced(placed=placed))
            self._placed.clear()
        load = self._load()
        if load != self._said:
            self._send(load)
            self._said = load
        # Until all of it has ended, ends must be told of, too.
        again = bool(load.in_flight)
        self._timer = asyncio.get_running_loop().call_later(TELL_S, self._tell) if again else None

    def _load(self) -> WorkerLoad:
        busy = [target for target in self._targets() if target.in_flight]
        return WorkerLoad(
            in_flight={target.id: target.in_flight for target in busy},
            queued={target.id: queued for target in busy if (queued := round(target.queued - target.queued_elsewhere))},
        )
