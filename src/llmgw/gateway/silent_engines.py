"""Engines of nodes whose agent is silent: asked now and then whether they are there, for nobody else may ask them.

A node whose engines answer is not lost, and requests show it; an idle engine gets none. So each gateway's master asks
those that the view marks: with the engine's own key, for the list of its models, which costs it nothing.
"""

import asyncio
import contextlib
import time

from llmgw.gateway.routes_view import Target, target_of
from llmgw.relay.errors import UpstreamError
from llmgw.relay.tls import ClientTls
from llmgw.relay.upstream import UpstreamPool
from llmgw.schema.demand import ReplicaDemand
from llmgw.schema.view import View

PROBE_S = 5.0
"""Pause between two rounds: an answer counts for 30 s, so several in a row must fail before it is missed."""
DEADLINE_S = 2.0
AT_ONCE = 64
"""Engines asked at the same time: half a fleet may be silent."""
_MOST_BYTES = 256 * 1024
_GOOD = 200


class SilentEngines:
    """The engines to ask, and when each answered last. `place` is where the gateway runs; `doors` for nodes' doors."""

    def __init__(
        self,
        place: str | None,
        *,
        doors: ClientTls | None = None,
        probe_s: float = PROBE_S,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._place = place
        self._doors = doors
        self._probe_s = probe_s
        self._deadline_s = deadline_s
        self._targets: dict[str, Target] = {}
        self._answered: dict[str, float] = {}
        self._more = asyncio.Event()

    def take(self, view: View | None) -> None:
        """Take over which engines to ask."""
        before = self._targets
        self._targets = {} if view is None or view.routes is None else _silent(view, self._place)
        self._answered = {replica: at for replica, at in self._answered.items() if replica in self._targets}
        if self._targets.keys() - before.keys():
            self._more.set()

    def answered(self) -> dict[str, ReplicaDemand]:
        """Give the engines that answered, by replica, with the age of the answer."""
        now = time.monotonic()
        return {
            replica: ReplicaDemand(in_flight=0, last_probed_age_s=now - at) for replica, at in self._answered.items()
        }

    async def run(self) -> None:
        """Ask until cancelled: at once when there is one more to ask."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._targets:
                await self._ask_all()
                await self._pause()

    async def _ask_all(self) -> None:
        # Connections of their own each time: whether the engine takes new ones is part of the question.
        pool, room = UpstreamPool(connect_timeout_s=self._deadline_s, tls=self._doors), asyncio.Semaphore(AT_ONCE)
        try:
            async with asyncio.TaskGroup() as tasks:
                for replica, target in self._targets.items():
                    tasks.create_task(self._ask(replica, target, pool, room))
        finally:
            pool.close()

    async def _ask(self, replica: str, target: Target, pool: UpstreamPool, room: asyncio.Semaphore) -> None:
        # An engine that does not answer is no event: what it means is for the control plane to say.
        async with room:
            with contextlib.suppress(UpstreamError, TimeoutError):
                async with asyncio.timeout(self._deadline_s):
                    good = await self._is_there(target, pool)
                if good and replica in self._targets:
                    self._answered[replica] = time.monotonic()

    async def _is_there(self, target: Target, pool: UpstreamPool) -> bool:
        response = await pool.request(
            target.endpoint,
            method="GET",
            path=f"{target.prefix}/v1/models",
            headers=target.headers,
            body=b"",
            first_byte_timeout_s=self._deadline_s,
        )
        try:
            await response.read(_MOST_BYTES)
        finally:
            response.close()
        return response.status == _GOOD

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._probe_s):
                await self._more.wait()
        self._more.clear()


def _silent(view: View, place: str | None) -> dict[str, Target]:
    assert view.routes is not None  # noqa: S101 - for the type checker: the caller looked
    return {
        replica.id: target
        for route in view.routes.routes
        for replica in route.replicas
        if replica.silent and (target := target_of(route.model, replica, place)) is not None
    }
