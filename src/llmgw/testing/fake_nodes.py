"""A fleet of fake nodes over the real agent link, with trouble on demand: what `llmgw fake-nodes` runs.

freeze     the agent hangs: silent, its stream open; engines answer
partition  nothing reaches the node: agent and engines are silent, connections hang
kill       the machine is off: its stream breaks, its engines are gone
flap       the agent's stream breaks every few seconds and comes back
heal       all is well again; a killed node comes back empty
"""

import asyncio
import contextlib
import random
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Self

from websockets.exceptions import WebSocketException

from llmgw.link.rounds import Rounds, redial_delay
from llmgw.schema.errors import InvalidInput
from llmgw.schema.value import Value
from llmgw.testing.fake_agent import FakeAgent
from llmgw.testing.fake_doors import FakeDoors, Gone
from llmgw.testing.fake_node import FakeNode
from llmgw.testing.node_kinds import facts_of, kind_named

RAMP_S = 0.002
"""Pause between two first dials: a listener's queue of new connections is about a hundred long."""
FLAP_S = 2.0


class NodeGroup(Value, frozen=True, kw_only=True):
    """Equal nodes, one table of a file: `[[nodes]]` with these keys."""

    kind: str
    count: int = 1
    name: str | None = None
    """Beginning of their names; left out, the kind."""
    fabric: str | tuple[str, ...] = ()
    """What they are attached to; several have equal parts of a node's adapters."""
    weights: tuple[str, ...] = ()
    labels: dict[str, str] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)


class FleetFile(Value, frozen=True, kw_only=True):
    """A fleet in a file."""

    nodes: tuple[NodeGroup, ...]


class Trouble(StrEnum):
    """What is wrong with a node."""

    NONE = "healthy"
    FROZEN = "frozen"
    PARTITIONED = "partitioned"
    DEAD = "dead"
    FLAPPING = "flapping"


_VERBS = {
    "freeze": Trouble.FROZEN,
    "partition": Trouble.PARTITIONED,
    "kill": Trouble.DEAD,
    "flap": Trouble.FLAPPING,
    "heal": Trouble.NONE,
}
_AWAY = frozenset({Trouble.FROZEN, Trouble.PARTITIONED, Trouble.DEAD})


class FakeMember:
    """One node of the fleet with its agent."""

    def __init__(self, node: FakeNode, agent: FakeAgent, servers: Sequence[str]) -> None:
        self.node = node
        self.served_since: float | None = None
        """Since when its stream is open, by the loop's clock; `None` while it has none."""
        self.lost_at: float | None = None
        """When its last stream ended."""
        self._servers = servers
        self._rounds = Rounds()
        self.trouble = Trouble.NONE
        self.welcomed = agent.welcomed
        """Set once a control plane took the node on."""
        self._agent = agent
        self._reachable = asyncio.Event()
        self._reachable.set()
        self._stream: asyncio.Task[None] | None = None

    async def keep_connected(self) -> None:
        """Dial again and again until cancelled."""
        loop = asyncio.get_running_loop()
        alone_since = loop.time()
        while True:
            await self._reachable.wait()
            self._rounds.begin(self._servers, loop.time())
            while (address := self._rounds.next()) is not None:
                self._agent.address = address
                if await self._attempt():
                    self._rounds.served(address)
                    alone_since = loop.time()
            flapping = self.trouble is Trouble.FLAPPING
            await asyncio.sleep(FLAP_S if flapping else redial_delay(loop.time() - alone_since, random.random()))

    async def _attempt(self) -> bool:
        """Serve one stream; True when it was taken on."""
        self._agent.welcome = None
        self._stream = asyncio.ensure_future(self._agent.run())
        watching = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait({self._stream}, timeout=FLAP_S if self.trouble is Trouble.FLAPPING else None)
        finally:
            watching.cancel()
            if self.served_since is not None:
                self.lost_at = asyncio.get_running_loop().time()
            self.served_since = None
            await self._cut()
        if self._agent.refused is not None and self._agent.refused.leader is not None:
            self._rounds.leads(self._agent.refused.leader)
        return self._agent.welcome is not None

    async def _watch(self) -> None:
        await self._agent.taken_on.wait()
        self.served_since = asyncio.get_running_loop().time()

    def set_trouble(self, trouble: Trouble) -> None:
        """Bring the node into trouble, or out of it."""
        self.trouble = trouble
        if trouble in _AWAY:
            self._reachable.clear()
        else:
            self._reachable.set()
        if trouble in {Trouble.FROZEN, Trouble.PARTITIONED}:
            self._agent.freeze()
        else:
            self._agent.thaw()
        if trouble is Trouble.DEAD:
            self.node.reboot()
        if trouble in {Trouble.DEAD, Trouble.FLAPPING} and self._stream is not None:
            self._stream.cancel()

    def refusal(self) -> str | None:
        """Say why the control plane does not take the node on; `None` when it does."""
        return self._agent.refused.reason if self._agent.refused else None

    async def model_of(self, shard: str) -> str | None:
        """Give the model a shard answers for. Waits while the node cannot be reached; raises `Gone` for a dead one."""
        while self.trouble is Trouble.PARTITIONED:
            await self._reachable.wait()
        if self.trouble is Trouble.DEAD:
            raise Gone
        return self.node.model_of(shard)

    async def _cut(self) -> None:
        stream, self._stream = self._stream, None
        if stream is None:
            return
        stream.cancel()
        # A control plane that is away, or breaks off, is what redialling is for.
        with contextlib.suppress(asyncio.CancelledError, OSError, WebSocketException, TimeoutError):
            await stream


class FakeFleet:
    """Fake nodes and the doors to their engines, in one loop. Use as a context, which starts to dial."""

    def __init__(
        self,
        groups: Iterable[NodeGroup],
        *,
        server: str | Sequence[str],
        token: str,
        heartbeat_s: float = 5.0,
        start_s: float = 0.1,
        host: str = "127.0.0.1",
        tls: Callable[[str], ssl.SSLContext] | None = None,
    ) -> None:
        """`tls` gives what a node dials with, by its name, where control planes ask for certificates."""
        self._tls = tls
        self.doors = FakeDoors(self._model_of, host=host)
        self.members: dict[str, FakeMember] = {}
        self._groups = tuple(groups)
        self._servers = (server,) if isinstance(server, str) else tuple(server)
        self._token = token
        self._heartbeat_s = heartbeat_s
        self._start_s = start_s
        self._shards: dict[str, FakeMember] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self.doors)
            for group in self._groups:
                for node in self._nodes(group):
                    self.members[node.id] = FakeMember(node, self._agent(node), self._servers)
            stack.pop_all()  # all is well: the doors stay open until the fleet is left
        loop = asyncio.get_running_loop()
        for index, member in enumerate(self.members.values()):
            self._tasks.append(loop.create_task(_after(index * RAMP_S, member)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.doors.__aexit__()

    async def joined(self, *, deadline_s: float = 60.0) -> None:
        """Wait until all nodes were taken on. Raises `InvalidInput` with the control plane's words."""
        try:
            async with asyncio.timeout(deadline_s):
                for member in self.members.values():
                    await member.welcomed.wait()
        except TimeoutError:
            raise InvalidInput(
                f"{self._joined()} of {len(self.members)} nodes joined {', '.join(self._servers)} within "
                f"{deadline_s:g} s: {self._why()}",
                hint="is this the agents' address, and does the token belong to it?",
            ) from None

    def command(self, line: str) -> str:
        """Carry out `freeze|partition|kill|flap|heal [N | NODE …]` or `status`; gives the answer as one line.

        A number means so many nodes that are healthy (of those in trouble, for `heal`); nothing means all.
        Raises `InvalidInput`.
        """
        verb, *which = line.split() or ["status"]
        if verb == "status":
            return self.status()
        trouble = _VERBS.get(verb)
        if trouble is None:
            raise InvalidInput(f"{verb!r} is no command", hint=f"commands: {', '.join((*_VERBS, 'status'))}")
        for member in self._chosen(which, healthy=trouble is not Trouble.NONE):
            member.set_trouble(trouble)
        return self.status()

    def status(self) -> str:
        """Give the fleet in one line."""
        troubles = Counter(member.trouble for member in self.members.values())
        engines = sum(len(member.node.running()) for member in self.members.values())
        told = ", ".join(f"{troubles[trouble]} {trouble.value}" for trouble in Trouble if troubles[trouble])
        return f"{len(self.members)} nodes: {told}; {engines} engines, {self.doors.answered()} requests answered"

    def served(self) -> int:
        """Count the nodes with an open stream to a control plane that took them on."""
        return sum(member.served_since is not None for member in self.members.values())

    def starts(self) -> int:
        """Count the engine starts there ever were."""
        return sum(len(member.node.starts) for member in self.members.values())

    def _nodes(self, group: NodeGroup) -> Iterator[FakeNode]:
        kind, prefix = kind_named(group.kind), group.name or group.kind
        for number in range(1, group.count + 1):
            name = f"{prefix}-{number:03}"
            if name in self.members:
                raise InvalidInput(
                    f"two nodes are named {name}", hint="give each group a name of its own", field="name"
                )
            facts = facts_of(
                kind,
                name,
                fabrics=(group.fabric,) if isinstance(group.fabric, str) else group.fabric,
                weights=group.weights,
                labels=group.labels,
                door=self.doors.address,
            )
            yield FakeNode(name, facts=facts)

    def _agent(self, node: FakeNode) -> FakeAgent:
        return FakeAgent(
            node,
            address=self._servers[0],
            token=self._token,
            heartbeat_s=self._heartbeat_s,
            start_s=self._start_s,
            tls=None if self._tls is None else self._tls(node.id),
        )

    def _chosen(self, which: list[str], *, healthy: bool) -> Iterator[FakeMember]:
        fitting = [member for member in self.members.values() if (member.trouble is Trouble.NONE) is healthy]
        if not which:
            yield from fitting
        elif len(which) == 1 and which[0].isdigit():
            yield from fitting[: int(which[0])]
        else:
            for name in which:
                if name not in self.members:
                    raise InvalidInput(f"there is no fake node {name!r}", hint="names are those of ctl node list")
                yield self.members[name]

    async def _model_of(self, shard: str) -> str | None:
        member = self._shards.get(shard)
        if member is None or member.node.model_of(shard) is None:
            member = next((one for one in self.members.values() if one.node.model_of(shard) is not None), member)
            if member is None:
                return None
            self._shards[shard] = member
        return await member.model_of(shard)

    def _joined(self) -> int:
        return sum(member.welcomed.is_set() for member in self.members.values())

    def _why(self) -> str:
        refusals = (member.refusal() for member in self.members.values())
        return next((told for told in refusals if told), "nothing answers there as a control plane does")


async def _after(pause_s: float, member: FakeMember) -> None:
    await asyncio.sleep(pause_s)
    await member.keep_connected()
