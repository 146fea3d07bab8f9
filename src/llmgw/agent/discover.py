"""Facts about this node, looked at again and again: processors, memory, weights, storage, engines."""

import asyncio
import importlib.metadata
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec

from llmgw.agent import off_loop
from llmgw.config.agent import AgentConfig
from llmgw.config.tls import split_address
from llmgw.engines import registry
from llmgw.hardware import cpu, memory, mounts, proc
from llmgw.schema.node import NodeFacts
from llmgw.schema.weights import Storage, WatchedPath, Weights
from llmgw.telemetry import log
from llmgw.weights.sources import Shelf

FOLDER_S = 10.0
"""Seconds to look through one folder; slower ones keep what was seen last and are waited for in the background."""
STEADY_SHARE = 0.01
"""Free space that moved by less of the total is not news."""

_log = log.get(__name__)


class Discovery:
    """Keeps the node's facts. Whatever blocks does so in threads of its own."""

    def __init__(self, config: AgentConfig, changed: Callable[[], None]) -> None:
        self._config = config
        self._changed = changed
        self._folders = tuple(_Folder(folder) for folder in config.weights_dirs or ())
        self._watching = Shelf()
        self._watch_paths: tuple[str, ...] = ()
        self._wake = asyncio.Event()
        self._door: str | None = None
        self._facts = self._first_look()
        self.looked = asyncio.Event()
        """Set after the first round: only then are weights known."""

    @property
    def facts(self) -> NodeFacts:
        """What is known now."""
        return self._facts

    def watch(self, paths: tuple[str, ...]) -> None:
        """Look at these paths too, at once when they are new."""
        if paths != self._watch_paths:
            self._watch_paths = paths
            self._wake.set()

    def door_at(self, address: str | None) -> None:
        """Take note of where the door listens."""
        self._tell(door=address)

    async def run(self) -> None:
        """Look every `discover_s` seconds and when there is something new to look at; until cancelled."""
        while True:
            self._wake.clear()
            await self._look()
            self.looked.set()
            try:
                async with asyncio.timeout(self._config.discover_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _look(self) -> None:
        host = cpu.discover()
        weights, storage, watched = await asyncio.gather(self._weights(), self._storage(), self._watched())
        self._tell(
            host=host,
            memory_bytes=memory.read().total_bytes,
            weights=weights,
            storage=storage,
            watched=watched,
            engines=registry.probe(host),
            engines_probed=True,
        )

    async def _weights(self) -> tuple[Weights, ...] | None:
        if self._config.weights_dirs is None:
            return None
        await asyncio.gather(*(folder.look() for folder in self._folders))
        found = {weights.path: weights for folder in self._folders for weights in folder.weights}
        return tuple(found[path] for path in sorted(found))

    async def _storage(self) -> tuple[Storage, ...] | None:
        folders = self._config.weights_dirs
        if folders is None:
            return None
        looking = off_loop.call(lambda: mounts.storage_of(folders, mounts.read_mounts()), name="storage")
        try:
            async with asyncio.timeout(FOLDER_S):
                return tuple(self._steady(new) for new in await looking)
        except TimeoutError:
            return self._facts.storage

    def _steady(self, new: Storage) -> Storage:
        """Keep the last figure of free space while it is about the same, so that facts do not change all the time."""
        old = next((one for one in self._facts.storage or () if one.mount == new.mount), None)
        if old is None or old.free_bytes is None or new.free_bytes is None or new.total_bytes is None:
            return new
        if abs(new.free_bytes - old.free_bytes) >= STEADY_SHARE * new.total_bytes:
            return new
        return msgspec.structs.replace(new, free_bytes=old.free_bytes)

    async def _watched(self) -> tuple[WatchedPath, ...]:
        return tuple(await asyncio.gather(*(self._look_at(path) for path in self._watch_paths)))

    async def _look_at(self, path: str) -> WatchedPath:
        try:
            async with asyncio.timeout(FOLDER_S):
                return await off_loop.call(lambda: self._watching.look(path), name=f"look at {path}")
        except TimeoutError:
            return WatchedPath(path=path, present=False, problem=f"{path} did not answer within {FOLDER_S:.0f} s")

    def _tell(self, **changes: object) -> None:
        facts = msgspec.structs.replace(self._facts, **changes)
        if facts != self._facts:
            self._facts = facts
            self._changed()

    def _first_look(self) -> NodeFacts:
        config = self._config
        return NodeFacts(
            hostname=socket.gethostname(),
            address=config.address or _address_towards(config.servers[0]),
            place=proc.place(),
            agent_version=importlib.metadata.version("llmgw"),
            host=cpu.discover(),
            labels=config.labels,
            memory_bytes=memory.read().total_bytes,
            devices=config.devices,
            fabrics=tuple(fabric.fabric() for fabric in config.fabrics),
        )


class _Folder:
    """One configured folder. A look that blocks is not started twice."""

    def __init__(self, path: str) -> None:
        self._path = str(Path(path).absolute())
        self._shelf = Shelf()
        self._looking: asyncio.Future[tuple[Weights, ...]] | None = None
        self.weights: tuple[Weights, ...] = ()

    async def look(self) -> None:
        if self._looking is None:
            self._looking = off_loop.call(lambda: self._shelf.scan([self._path]), name=f"weights {self._path}")
        await asyncio.wait({self._looking}, timeout=FOLDER_S)
        if not self._looking.done():
            _log.warning("weights.silent", folder=self._path, seconds=FOLDER_S)
            return
        looked, self._looking = self._looking, None
        try:
            self.weights = looked.result()
        except OSError as error:
            _log.warning("weights.unreadable", folder=self._path, error=str(error))


def _address_towards(server: str) -> str:
    """Give our address on the route to a control plane; nothing is sent."""
    host, port = split_address(server, field="servers")
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()
