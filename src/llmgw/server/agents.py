"""The agents of this control plane: who is connected, what each says, and what was ordered."""

import asyncio
import contextlib
import itertools
import re
from typing import Protocol

import msgspec

from llmgw.core import credible
from llmgw.ports import Clock
from llmgw.schema.desired import DesiredState
from llmgw.schema.errors import NotFound
from llmgw.schema.lease import Fence
from llmgw.schema.link import (
    AgentMessage,
    Heartbeat,
    Hello,
    LogReply,
    LogRequest,
    Order,
    OrderRefused,
    Refused,
    ServerMessage,
    Welcome,
)
from llmgw.server.asked import Asked
from llmgw.server.live import Live, LiveNodes
from llmgw.telemetry import log

LOG_DEADLINE_S = 5.0
HOLD_S = 2.0
"""How long an agent waits here for a new leader before it looks elsewhere; less than it waits for an answer (3 s)."""

_log = log.get(__name__)
_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class AgentLease(Protocol):
    """What admission needs to know of the lease."""

    def fence(self) -> Fence | None:
        """Give this leader's epoch and holder; `None` unless it leads now."""

    def raise_epoch(self, at_least: int) -> None:
        """Have the lease row's epoch raised: some agent obeyed a higher one, or this one from another holder."""


class Directory(Protocol):
    """Where agents reach the control planes."""

    def agent_addresses(self) -> tuple[str, ...]:
        """Give all addresses, this control plane's first."""

    def leader_address(self) -> str | None:
        """Give the leader's address; `None` when it is not known."""

    def leader(self) -> str | None:
        """Give who holds the lease, as the row says; `None` when nobody does."""


class Stream(Protocol):
    """One agent's open stream (`link.server.AgentStream`, or a simulated one)."""

    @property
    def node(self) -> str:
        """Id of the node."""

    @property
    def number(self) -> int:
        """Which of all streams this is."""

    def send(self, message: ServerMessage) -> None:
        """Send a message soon; of several orders the last wins."""

    def close(self, reason: str) -> None:
        """Close the stream at once."""


class Agents:
    """Admits agents while open, keeps `LiveNodes` up to date, and sends orders.

    Opened by whoever leads, after its rows were read, and closed at once when it no longer does. Signs of life are
    stamped by `hearing`, a clock that stands still while this process is deaf; default the same clock as loads.
    """

    def __init__(
        self,
        *,
        live: LiveNodes,
        lease: AgentLease,
        clock: Clock,
        hearing: Clock | None = None,
        directory: Directory | None = None,
        asked: Asked | None = None,
    ) -> None:
        self._live = live
        self._lease = lease
        self._clock = clock
        self._hearing = hearing or clock
        self._directory = directory
        self._asked = asked or Asked(clock)
        self._open = False
        self._streams: dict[str, Stream] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._sent: dict[int, DesiredState] = {}
        self._logs: dict[int, asyncio.Future[LogReply]] = {}
        self._log_ids = itertools.count(1)

    # The leader's side ---------------------------------------------------------------------------

    def open(self) -> None:
        """Take on agents from now on."""
        self._open = True
        self._asked.forget()
        self.look()

    def close(self, reason: str) -> None:
        """Let all agents go at once, refuse others from now on, and forget what was heard."""
        self._open = False
        for stream in self._streams.values():
            stream.close(reason)
        self._streams.clear()
        self._sent.clear()
        self._live.forget()

    def look(self) -> None:
        """Have agents that wait be looked at: the lease changed. To be called on the loop."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def sent(self, node: str) -> DesiredState | None:
        """Give the order sent last on the node's stream; `None` when none was sent on it yet."""
        stream = self._streams.get(node)
        return self._sent.get(stream.number) if stream else None

    def send(self, node: str, stream: int, state: DesiredState) -> None:
        """Send an order on one stream of a node; nothing is sent when another stream took its place."""
        current = self._streams.get(node)
        if current is None or current.number != stream:
            return
        self._sent[stream] = state
        current.send(Order(state=state))

    async def read_log(self, shard: str, *, node: str, attempt: int | None, tail_bytes: int) -> LogReply:
        """Ask a node's agent for the end of a shard's log. Raises `NotFound` when it is away or silent."""
        stream = self._streams.get(node)
        if stream is None:
            raise NotFound(
                f"cannot read the log of shard {shard}: the agent of node {node} is not connected",
                hint=f"logs stay on the node, in logs/{shard} of the agent's data folder",
            )
        request = LogRequest(id=next(self._log_ids), shard=shard, attempt=attempt, tail_bytes=tail_bytes)
        reply: asyncio.Future[LogReply] = asyncio.get_running_loop().create_future()
        self._logs[request.id] = reply
        stream.send(request)
        try:
            async with asyncio.timeout(LOG_DEADLINE_S):
                return await reply
        except TimeoutError as error:
            raise NotFound(
                f"node {node} did not send the log of shard {shard} within {LOG_DEADLINE_S:.0f} s",
                hint="the node is busy or gone; try again",
            ) from error
        finally:
            del self._logs[request.id]

    # The listener's side -------------------------------------------------------------------------

    async def settle(self, hello: Hello) -> None:
        """Let an agent wait while whom it lost holds the lease, or nobody: the next leader may be this one.

        So a thousand agents that lost their leader do not dial again and again, and are there when one leads.
        """
        if not self._open:
            self._asked.note(hello.node)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOLD_S):
                while self._undecided(hello):
                    moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.add(moved)
                    try:
                        await moved
                    finally:
                        self._waiting.discard(moved)

    def admit(self, hello: Hello) -> Welcome | Refused:
        """Take an agent on, or say why not and where to go."""
        fence = self._lease.fence()
        if not self._open or fence is None:
            leader = self._directory.leader_address() if self._directory is not None else None
            return Refused(reason="this control plane does not lead", leader=leader)
        if _NODE_ID.fullmatch(hello.node) is None:
            return Refused(reason=f"node id {hello.node!r} is not letters, digits, dots and dashes (63 at most)")
        doubt = credible.doubt(epoch=hello.epoch, generation=hello.generation, ours=fence.epoch)
        if doubt is not None:
            _log.warning("agent.forged", node=hello.node, reason=doubt)
            return Refused(reason=doubt)
        if self._foreign(fence, hello.epoch, hello.holder):
            return Refused(reason=f"epoch {hello.epoch} was obeyed already; this control plane raises its own")
        servers = self._directory.agent_addresses() if self._directory is not None else ()
        return Welcome(epoch=fence.epoch, holder=fence.holder, servers=servers)

    def opened(self, stream: Stream, hello: Hello) -> None:
        """Take an agent's stream on; it replaces an older one of the same node."""
        older = self._streams.get(hello.node)
        if older is not None:
            older.close("a newer stream of this node took its place")
            self._sent.pop(older.number, None)
        self._streams[hello.node] = stream
        now = self._hearing.monotonic()
        known = self._live.get(hello.node)
        live = Live(
            node=hello.node,
            stream=stream.number,
            facts=hello.facts,
            reports=hello.shards,
            generation=hello.generation,
            connected=True,
            heard_at=now,
            # A broken stream makes a measurement no older than it is.
            load=known.load if known is not None else None,
            load_at=known.load_at if known is not None else None,
        )
        _log.info("agent.connected", node=hello.node, shards=len(hello.shards))
        self._live.put(live)

    def heard(self, stream: Stream) -> None:
        """Note a sign of life."""
        if self._current(stream):
            self._live.touch(stream.node, self._hearing.monotonic())

    def said(self, stream: Stream, message: AgentMessage) -> None:
        """Take in what an agent says."""
        if not self._current(stream):
            return
        match message:
            case Heartbeat():
                self._heartbeat(stream.node, message)
            case LogReply(id=request):
                reply = self._logs.get(request)
                if reply is not None and not reply.done():
                    reply.set_result(message)
            case OrderRefused():
                self._refused(stream, message)
            case _:
                pass

    def closed(self, stream: Stream) -> None:
        """Note that a stream is gone."""
        self._sent.pop(stream.number, None)
        if self._current(stream):
            del self._streams[stream.node]
            _log.info("agent.disconnected", node=stream.node)
            self._live.disconnect(stream.node)

    def _undecided(self, hello: Hello) -> bool:
        if self._open or self._directory is None:
            return False
        # A lease of our own: it opens in a moment, once the rows are read.
        return self._lease.fence() is not None or self._directory.leader() in {None, hello.holder}

    def _heartbeat(self, node: str, beat: Heartbeat) -> None:
        live = self._live.get(node)
        if live is None:
            return
        changed = msgspec.structs.replace(live, reports=beat.shards, generation=beat.generation)
        if beat.facts is not None:
            changed = msgspec.structs.replace(changed, facts=beat.facts)
        if beat.load is not None:
            changed = msgspec.structs.replace(changed, load=beat.load, load_at=self._clock.monotonic())
        self._live.put(changed)

    def _refused(self, stream: Stream, refusal: OrderRefused) -> None:
        _log.warning("agent.order_refused", node=stream.node, epoch=refusal.epoch, reason=refusal.reason)
        fence = self._lease.fence()
        if fence is None:
            return
        doubt = credible.doubt(epoch=refusal.highest_epoch, generation=refusal.generation, ours=fence.epoch)
        if doubt is not None:
            _log.warning("agent.forged", node=stream.node, reason=doubt)
            stream.close(doubt)
        elif not self._foreign(fence, refusal.highest_epoch, refusal.highest_holder):
            # The generation is too low: the next hello tells the one obeyed, and the reconciler goes beyond it.
            stream.close("an order was refused; say hello again")

    def _foreign(self, fence: Fence, epoch: int, holder: str | None) -> bool:
        """True when an agent obeyed a later leader: then our epoch must go beyond it before we order anything."""
        if epoch < fence.epoch or (epoch == fence.epoch and holder in {None, fence.holder}):
            return False
        _log.warning("lease.foreign_epoch", epoch=epoch, holder=holder, ours=fence.epoch)
        self._lease.raise_epoch(epoch + 1)
        return True

    def _current(self, stream: Stream) -> bool:
        return self._streams.get(stream.node) is stream
