"""What a master has to tell all other gateways, made once for all of them."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from llmgw.gateway.news import TELL_S
from llmgw.gateway.peer_records import PeerLoad, pack_load, pack_placed
from llmgw.gateway.worker_link import Placed, WorkerLoad
from llmgw.link.frames import framed

AGAIN_S = 1.0
"""A load that stays the same is told again so often: it is a sign of life."""
KEPT = 4096
"""Placements that are kept for who is slow. Who is slower misses some: they are a help, not a need."""

Position = tuple[int, int]
"""How far somebody was told: the sequence of the load, and the number of placements."""


class PeerNews:
    """`known` gives what is known of replicas' caches already, for who comes anew."""

    def __init__(self, known: Callable[[], list[Placed]] = list) -> None:
        self._known = known
        self._sequence = 0
        self._load = WorkerLoad()
        self._frame = b""
        self._placed: deque[bytes] = deque(maxlen=KEPT)
        self._count = 0
        self._dirty = asyncio.Event()
        self._told = asyncio.Event()
        self._make_frame()

    def tell(self, load: WorkerLoad) -> None:
        """Take over the load."""
        if load != self._load:
            self._load = load
            self._dirty.set()

    def placed(self, placed: Placed) -> None:
        """Take over a placement."""
        frame = pack_placed(placed)
        if frame is not None:
            self._placed.append(framed(frame))
            self._count += 1
            self._dirty.set()

    async def run(self) -> None:
        """Tell what is new, and now and then that there is nothing; until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await self._dirty.wait()
                await asyncio.sleep(TELL_S)  # what comes meanwhile goes out together
            self._dirty.clear()
            self._make_frame()
            self._told.set()
            self._told = asyncio.Event()

    def all(self) -> tuple[bytes, Position]:
        """Give all there is to tell somebody who knows nothing, and how far that goes."""
        frames = [framed(frame) for placed in self._known() if (frame := pack_placed(placed)) is not None]
        return b"".join((*frames, self._frame)), (self._sequence, self._count)

    async def next(self, after: Position) -> tuple[bytes, Position]:
        """Wait for what is newer than `after`."""
        while self._sequence == after[0]:
            await self._told.wait()
        missed = min(self._count - after[1], len(self._placed))
        recent = [self._placed[at] for at in range(len(self._placed) - missed, len(self._placed))]
        return b"".join((*recent, self._frame)), (self._sequence, self._count)

    def _make_frame(self) -> None:
        self._sequence += 1
        load = PeerLoad(sequence=self._sequence, in_flight=self._load.in_flight, queued=self._load.queued)
        self._frame = framed(pack_load(load))
