"""The node's load: measured again and again beside the loop, never on it, and told with its age."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from llmgw.agent import off_loop
from llmgw.agent.node_load import NodeMeter
from llmgw.agent.process_group import Identity
from llmgw.agent.shard_load import ShardMeter
from llmgw.schema.report import LOAD_EXPIRES_S, Load, ShardLoad
from llmgw.telemetry import log

AT_LEAST_S = 2.0
"""Shorter spans say little: the kernel counts in hundredths of a second."""
SHARDS_WAIT_S = 2.0
"""Seconds to wait for engines: a process whose memory map is locked answers nobody, and may do so for long."""

_log = log.get(__name__)


class LoadMeter:
    """Measures the node and its engines, one after the other, and keeps the newest measurement."""

    def __init__(
        self, groups: Callable[[], Mapping[str, Identity]], *, period_s: float, data_dir: Path | None = None
    ) -> None:
        self._groups = groups
        self._period_s = max(AT_LEAST_S, period_s)
        self._node = NodeMeter(data_dir)
        self._shards = ShardMeter()
        self._late: asyncio.Future[tuple[ShardLoad, ...]] | None = None
        self._last: Load | None = None
        self._at = 0.0

    def last(self) -> Load | None:
        """Give the newest measurement with its age; `None` when there is none, or only one that is too old."""
        age_s = time.monotonic() - self._at
        if self._last is None or age_s > LOAD_EXPIRES_S:
            return None
        return msgspec.structs.replace(self._last, age_s=round(age_s, 3))

    async def run(self) -> None:
        """Measure until cancelled."""
        pause_s = AT_LEAST_S  # the first span is short, so that a new agent soon says something
        while True:
            try:
                await self.look()
            except (OSError, ValueError) as error:
                # What /proc looks like here we do not understand: no load is told, and the agent goes on.
                _log.warning("load.unreadable", error=str(error))
            await asyncio.sleep(pause_s)
            pause_s = self._period_s

    async def look(self) -> None:
        """Measure once."""
        at = time.monotonic()
        node = await off_loop.call(self._node.measure, name="load")
        shards = await self._look_at_shards()
        self._last, self._at = msgspec.structs.replace(node, shards=shards), at

    async def _look_at_shards(self) -> tuple[ShardLoad, ...]:
        if self._late is not None and not self._late.done():
            return ()
        groups = self._groups()
        future = off_loop.call(lambda: self._shards.measure(groups), name="shard-load")
        done, _ = await asyncio.wait({future}, timeout=SHARDS_WAIT_S)
        self._late = None if done else future  # what comes late is dropped: it has no age
        return future.result() if done else ()
