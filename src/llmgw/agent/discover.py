"""Facts about this node, looked at again and again: processors, memory, weights, storage, engines."""

import asyncio
import importlib.metadata
import socket
from collections.abc import Callable

import msgspec

from llmgw.agent.digests import DigestBook, Digests
from llmgw.agent.fabric_look import FabricLook
from llmgw.agent.storage_look import StorageLook
from llmgw.agent.weights_look import WeightsLook
from llmgw.config.agent import AgentConfig
from llmgw.config.tls import is_wildcard, split_address
from llmgw.engines import registry
from llmgw.hardware import cpu, memory, proc
from llmgw.schema.door import HTTPS
from llmgw.schema.node import NodeFacts


class Discovery:
    """Keeps the node's facts. Whatever may block is looked at in threads, and holds up nothing else."""

    def __init__(self, config: AgentConfig, changed: Callable[[], None], book: DigestBook | None = None) -> None:
        self._config = config
        self._changed = changed
        self._wake = asyncio.Event()
        folders = config.weights_dirs or ()
        self._digests = Digests(book, mib_per_s=config.digest_mib_per_s, made=self._wake.set)
        self._weights = WeightsLook(folders, self._digests, self._wake.set)
        self._storage = StorageLook(folders, self._wake.set)
        self._fabrics = FabricLook([fabric.fabric() for fabric in config.fabrics], self._wake.set)
        self._watch_paths: tuple[str, ...] = ()
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
        self._tell(door=None if address is None else _reachable(address, self._facts.address))

    def problems_are(self, problems: tuple[str, ...]) -> None:
        """Take note of what is wrong with the node itself."""
        self._tell(problems=problems)

    async def run(self) -> None:
        """Look every `discover_s` seconds and when there is something new to look at; until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._digests.run())
            group.create_task(self._keep_looking())

    async def _keep_looking(self) -> None:
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
        fabrics, watched, _ = await asyncio.gather(
            self._fabrics.look(self._facts.fabrics), self._weights.watch(self._watch_paths), self._look_in_folders()
        )
        self._tell(
            host=host,
            memory_bytes=memory.read().total_bytes,
            fabrics=fabrics,
            watched=watched,
            engines=registry.probe(host),
            engines_probed=True,
        )

    async def _look_in_folders(self) -> None:
        if self._config.weights_dirs is None:
            return
        seen, storage = await asyncio.gather(self._weights.look(), self._storage.look(self._facts.storage or ()))
        self._tell(weights=seen.weights, weights_folders=seen.folders, storage=storage)

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


def _reachable(door: str, host: str) -> str:
    """Give where others reach a door: one that listens on all addresses is at the node's own."""
    scheme, bare = (HTTPS, door.removeprefix(HTTPS)) if door.startswith(HTTPS) else ("", door)
    if not is_wildcard(bare):
        return door
    port = bare.rpartition(":")[2]
    return f"{scheme}[{host}]:{port}" if ":" in host else f"{scheme}{host}:{port}"


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
