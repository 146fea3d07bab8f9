"""The master's part between its workers and other gateways: what each has at replicas, the others are told."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterable

from llmgw.gateway.news import TELL_S
from llmgw.gateway.peer_folder import PeerFolder
from llmgw.gateway.peer_loads import total
from llmgw.gateway.peers import Peers
from llmgw.gateway.placements import Placements
from llmgw.gateway.worker_link import Elsewhere, NewlyPlaced, Placed, WorkerLoad
from llmgw.schema.view import View

LOOK_S = 0.5
"""Others' load fades and expires also while nobody says anything."""


class SharedLoad:
    """`send` takes a message to a worker, by its number.

    Without `peers` only workers share; with a `folder` peers are those found there, else those of the view.
    """

    def __init__(
        self,
        send: Callable[[int, object], None],
        *,
        peers: Peers | None = None,
        sock: socket.socket | None = None,
        folder: PeerFolder | None = None,
        placements: Placements | None = None,
    ) -> None:
        self._send = send
        self._peers = peers
        self._sock = sock
        self._folder = folder
        self._placements = placements or Placements()
        self._workers: dict[int, WorkerLoad] = {}
        self._told: dict[int, Elsewhere] = {}
        self._woken = asyncio.Event()
        if peers is not None:
            peers.on_placed = self._heard_placed
            peers.on_load = self._woken.set

    def take(self, view: View | None) -> None:
        """Take over which replicas and gateways there are."""
        self._placements.take(view)
        if self._peers is not None and self._folder is None:
            self._peers.take(view)

    def join(self, worker: int) -> None:
        """Tell a worker that has just started all that is known."""
        self._workers[worker] = WorkerLoad()
        for placed in self._placements.all():
            self._send(worker, NewlyPlaced(placed=(placed,)))
        self._woken.set()

    def leave(self, worker: int) -> None:
        """Forget a worker that ended: its requests ended with it."""
        self._workers.pop(worker, None)
        self._told.pop(worker, None)
        self._changed()

    def heard(self, worker: int, message: WorkerLoad | NewlyPlaced) -> None:
        """Take in what a worker has, or has put, at replicas."""
        if isinstance(message, NewlyPlaced):
            known = tuple(placed for placed in message.placed if self._placements.add(placed))
            self._hand_on(known, but=worker)
            if self._peers is not None:
                for placed in known:
                    self._peers.news.placed(placed)
            return
        self._workers[worker] = message
        self._changed()

    def peers(self) -> dict[str, int] | None:
        """Count the other gateways: known ones tell their load, silent ones do not; `None` where nobody is asked."""
        return None if self._peers is None else self._peers.states(time.monotonic())

    async def run(self) -> None:
        """Exchange until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_workers())
            if self._peers is not None and self._sock is not None:
                tasks.create_task(self._peers.run(self._sock))
                if self._folder is not None:
                    tasks.create_task(self._folder.run(self._peers.take))

    def _changed(self) -> None:
        if self._peers is not None:
            self._peers.news.tell(_sum(self._workers.values()))
        self._woken.set()

    def _heard_placed(self, placed: Placed) -> None:
        if self._placements.add(placed):
            self._hand_on((placed,), but=None)

    def _hand_on(self, placed: tuple[Placed, ...], *, but: int | None) -> None:
        for worker in self._workers if placed else ():
            if worker != but:
                self._send(worker, NewlyPlaced(placed=placed))

    async def _tell_workers(self) -> None:
        while True:
            await self._news()
            now = time.monotonic()
            far = WorkerLoad()
            if self._peers is not None:
                loads = self._peers.loads
                far = WorkerLoad(in_flight=loads.elsewhere(now), queued=loads.queued(now))
            for worker in tuple(self._workers):
                others = [load for number, load in self._workers.items() if number != worker]
                found = _sum((far, *others))
                elsewhere = Elsewhere(in_flight=found.in_flight, queued=found.queued)
                if elsewhere != self._told.get(worker, Elsewhere()):
                    self._told[worker] = elsewhere
                    self._send(worker, elsewhere)

    async def _news(self) -> None:
        """Wait until something may have changed, and a moment for what comes with it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if self._peers is None else LOOK_S):
                await self._woken.wait()
                self._woken.clear()
                await asyncio.sleep(TELL_S / 2)


def _sum(loads: Iterable[WorkerLoad]) -> WorkerLoad:
    several = tuple(loads)
    return WorkerLoad(
        in_flight=total(load.in_flight for load in several), queued=total(load.queued for load in several)
    )
