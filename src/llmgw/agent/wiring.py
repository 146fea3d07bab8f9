"""The one place that builds the agent's parts and joins them."""

import asyncio
from pathlib import Path

import aiohttp

from llmgw.agent.discover import Discovery
from llmgw.agent.disk_look import DiskLook
from llmgw.agent.door import DoorKeeper
from llmgw.agent.engine_run import EngineTools
from llmgw.agent.heartbeat import Heart
from llmgw.agent.load import LoadMeter
from llmgw.agent.local_state import LocalState
from llmgw.agent.orders import Orders
from llmgw.agent.supervise import Supervisor
from llmgw.config.agent import AgentConfig
from llmgw.config.tls import Tls
from llmgw.engines import registry
from llmgw.hardware.cgroup import unified_mount
from llmgw.hardware.mounts import read_mounts
from llmgw.link.client import AgentConnection
from llmgw.link.identity import TlsIdentity
from llmgw.link.renewal import keep_certificate
from llmgw.schema.desired import DesiredState
from llmgw.schema.door import DoorUpdate
from llmgw.telemetry.clock import SystemClock

FIRST_LOOK_S = 12.0
"""Seconds the first look at weights may take: "not looked yet" must not go out as "asked to look at none"."""


class Agent:
    """A node's agent. Made within a running loop, in a folder whose lock is held."""

    def __init__(self, config: AgentConfig, state: LocalState, session: aiohttp.ClientSession) -> None:
        self._clock = clock = SystemClock()
        mount = unified_mount(read_mounts())
        tools = EngineTools(
            state=state,
            adapter=registry.adapter,
            session=session,
            clock=clock,
            cgroup_mount=mount,
            start_timeout_s=config.start_timeout_s,
            verbosity=config.engine_verbosity,
        )
        self._supervisor = Supervisor(tools, self._shards_changed)
        self._discovery = Discovery(config, self._facts_changed, state)
        self._identity = TlsIdentity(state.root, join="llmgw agent join") if config.tls is Tls.ON else None
        self._disk = DiskLook(state, self._discovery.problems_are, self._certificate_problem)
        self._load = LoadMeter(self._supervisor.groups, period_s=config.heartbeat_s, data_dir=state.root)
        self._heart = Heart(
            node=state.node_id(config.node_id),
            token_file=None if config.token_file is None else Path(config.token_file),
            heartbeat_s=config.heartbeat_s,
            facts=lambda: self._discovery.facts,
            reports=self._supervisor.reports,
            obeyed=lambda: self._orders.obeyed,
            load=self._load.last,
        )
        self._orders = Orders(state=state, servers=config.servers, heart=self._heart, obey=self._obey)
        self._door = DoorKeeper(
            config, state, cgroup_mount=mount, update=self._door_update, listens=self._discovery.door_at
        )
        self._connection = AgentConnection(self._orders, clock, self._identity)

    async def run(self) -> None:
        """Work until cancelled, which leaves engines and door running."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._supervisor.run(lambda: (self._door.pid,) if self._door.pid else ()))
            group.create_task(self._discovery.run())
            group.create_task(self._disk.run())
            group.create_task(self._load.run())
            group.create_task(self._door.run())
            if self._identity is not None:
                group.create_task(keep_certificate(self._identity, self._orders.addresses, self._clock))
            await self._supervisor.adopted.wait()
            await self._first_look()
            group.create_task(self._heart.run(self._connection))
            group.create_task(self._connection.run())

    async def _first_look(self) -> None:
        try:
            async with asyncio.timeout(FIRST_LOOK_S):
                await self._discovery.looked.wait()
        except TimeoutError:
            return

    def _certificate_problem(self) -> str | None:
        return None if self._identity is None else self._identity.problem(self._clock.now())

    def _obey(self, order: DesiredState) -> None:
        self._supervisor.order(order)
        self._discovery.watch(order.watch_paths)

    def _shards_changed(self) -> None:
        self._heart.changed()
        self._door.changed()

    def _facts_changed(self) -> None:
        self._heart.changed()

    def _door_update(self) -> DoorUpdate:
        return DoorUpdate(shards=self._supervisor.door_shards(), readings=self._supervisor.readings())
