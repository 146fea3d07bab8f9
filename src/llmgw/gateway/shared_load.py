"""The master's part between its workers and other gateways: their load goes out together, others' comes in."""

import asyncio
import socket
import time
from collections.abc import Callable, Mapping

from llmgw.gateway.peer_loads import total
from llmgw.gateway.peers import TELL_S, Peers
from llmgw.gateway.worker_link import Elsewhere
from llmgw.schema.view import View


class SharedLoad:
    """`broadcast` takes a message to all workers."""

    def __init__(self, peers: Peers, sock: socket.socket, broadcast: Callable[[object], None]) -> None:
        self._peers = peers
        self._sock = sock
        self._broadcast = broadcast
        self._own: dict[int, Mapping[str, int]] = {}
        self.elsewhere = Elsewhere()
        """What other gateways have at replicas, as workers were told last."""

    def take(self, view: View | None) -> None:
        """Take over which gateways there are."""
        self._peers.take(view)

    def heard(self, worker: int, in_flight: Mapping[str, int]) -> None:
        """Take over what a worker has at replicas; nothing when it ended."""
        if in_flight:
            self._own[worker] = in_flight
        else:
            self._own.pop(worker, None)
        self._peers.tell(total(self._own.values()))

    def peers(self) -> dict[str, int]:
        """Count the other gateways: known ones tell their load, silent ones do not."""
        return self._peers.states(time.monotonic())

    async def run(self) -> None:
        """Exchange until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._peers.run(self._sock))
            tasks.create_task(self._hand_on())

    async def _hand_on(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            found = Elsewhere(in_flight=self._peers.loads.elsewhere(time.monotonic()))
            if found != self.elsewhere:
                self.elsewhere = found
                self._broadcast(found)
