"""The hub: gives gateways the routing view, and takes in their demand and metrics.

Gateways of this machine connect over a Unix socket, those of others over mutual TLS.
"""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from llmgw.core.guard.judge_evidence import judge_entries
from llmgw.link.frames import MAX_FRAME, FrameError, pack, read_frame
from llmgw.link.identity import Holder, holder_of
from llmgw.link.messages import Messages
from llmgw.ports import Clock, FleetRows
from llmgw.schema.alias import Alias
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.identity import Identity, Part
from llmgw.schema.join import Declined, Joined, Renew
from llmgw.schema.key import ApiKey
from llmgw.schema.link import (
    ControlMessage,
    GatewayHello,
    GatewayMessage,
    GatewayReport,
    Ping,
    Refused,
    RenewCertificate,
    Renewed,
    ViewDelta,
    ViewSnapshot,
)
from llmgw.schema.view import AliasesSection, KeysSection, Peer, PeersSection, PoliciesSection, RoutesSection, View
from llmgw.server.changes import Changes
from llmgw.server.demand import DemandBoard, GatewayLive
from llmgw.server.gateway_gate import GatewayGate
from llmgw.server.live import LiveNodes
from llmgw.server.view import key_entries, routes, routes_delta
from llmgw.telemetry import log

PING_S = 5.0
DEAD_S = 15.0
"""Seconds without a byte after which a gateway's stream is dead; gateways report each second."""
SEND_S = 10.0
"""Seconds a gateway may take to read what was sent before its stream is dropped; it comes back for a snapshot."""

MAX_HELLO = 64 * 1024
"""Of the first message, before it is known who speaks."""

_log = log.get(__name__)
_messages: Messages[GatewayMessage] = Messages(msgspec.json.Decoder(GatewayMessage))


class FleetView(Protocol):
    """What a view is made of."""

    changes: Changes

    @property
    def loaded(self) -> bool:
        """False until the rows were read."""

    @property
    def rows(self) -> FleetRows:
        """All fleet tables."""

    @property
    def api_keys(self) -> tuple[ApiKey, ...]:
        """All client keys."""

    @property
    def policies(self) -> tuple[StoredPolicy, ...]:
        """All policies of the guardrails."""

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """Other names of models."""

    @property
    def hash_key(self) -> bytes:
        """The cluster's key for keyed hashes; empty until there is one."""


Renewing = Callable[[Renew, Holder], Awaitable[Joined | Declined | Refused]]
"""Decides about a request for a certificate in the name of another one."""


class PeerDirectory(Protocol):
    """The gateways of all control planes."""

    changes: Changes

    def peers(self) -> tuple[Peer, ...]:
        """Give all gateways that other gateways can reach."""


class Hub:
    """One view for all gateways. Each gateway's stream is sent what differs from what it was sent last."""

    def __init__(
        self,
        *,
        source: str,
        fleet: FleetView,
        live: LiveNodes,
        board: DemandBoard,
        clock: Clock,
        directory: PeerDirectory | None = None,
        renew: Renewing | None = None,
    ) -> None:
        self._source = source
        self._fleet = fleet
        self._live = live
        self._board = board
        self._clock = clock
        self._routes: RoutesSection | None = None
        self._keys: KeysSection | None = None
        self._policies: PoliciesSection | None = None
        self._aliases: AliasesSection | None = None
        self._directory = directory
        self._peers: PeersSection | None = None
        self._reachable: dict[str, Peer] = {}
        self._streams: set[_Stream] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._renew = renew

    async def start(self, sock: socket.socket) -> None:
        """Listen on a bound Unix socket."""
        self._servers.append(await asyncio.start_unix_server(self._accept, sock=sock))

    async def start_tls(self, sock: socket.socket, gate: GatewayGate) -> None:
        """Listen on a bound address, for gateways that `gate` lets in."""
        accept = functools.partial(self._accept, gate=gate)
        self._servers.append(
            await asyncio.start_server(
                accept, sock=sock, ssl=gate.context, ssl_handshake_timeout=SEND_S, ssl_shutdown_timeout=1.0
            )
        )

    async def run(self) -> None:
        """Keep the view up to date until cancelled."""
        woken = asyncio.Event()
        ends = [self._fleet.changes.subscribe(woken.set), self._live.changes.subscribe(woken.set)]
        if self._directory is not None:
            ends.append(self._directory.changes.subscribe(woken.set))
        try:
            while True:
                woken.clear()
                self._refresh()
                await woken.wait()
        finally:
            for end in ends:
                end()

    async def stop(self) -> None:
        """Close all streams. Gateways serve on with the view they have."""
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def view(self) -> View | None:
        """Give the whole view; `None` until rows were read: an empty view would take models from gateways."""
        if self._routes is None:
            return None
        return View(
            source=self._source,
            routes=self._routes,
            keys=self._keys,
            policies=self._policies,
            aliases=self._aliases,
            peers=self._peers,
        )

    def reachable(self) -> tuple[Peer, ...]:
        """Give the gateways connected here that other gateways can reach, by name."""
        return tuple(self._reachable[name] for name in sorted(self._reachable))

    def _refresh(self) -> None:
        if not self._fleet.loaded:
            return
        for stream in self._streams:
            stream.look()
        refreshed = (
            self._refresh_routes(),
            self._refresh_keys(),
            self._refresh_policies(),
            self._refresh_aliases(),
            self._refresh_peers(),
        )
        if any(refreshed):
            for stream in self._streams:
                stream.woken.set()

    def _refresh_routes(self) -> bool:
        reports = {report.id: report for live in self._live.all() for report in live.reports}
        found = routes(self._fleet.rows, reports)
        if self._routes is not None and found == self._routes.routes:
            return False
        self._routes = RoutesSection(version=1 if self._routes is None else self._routes.version + 1, routes=found)
        return True

    def _refresh_keys(self) -> bool:
        hash_key = self._fleet.hash_key.hex()
        entries = key_entries(self._fleet.api_keys)
        if not hash_key:
            return False
        if self._keys is not None and (entries, hash_key) == (self._keys.keys, self._keys.hash_key):
            return False
        version = 1 if self._keys is None else self._keys.version + 1
        self._keys = KeysSection(version=version, hash_key=hash_key, keys=entries)
        return True

    def _refresh_policies(self) -> bool:
        policies, rows, before = self._fleet.policies, self._fleet.rows, self._policies
        judges = judge_entries(policies, rows.models, rows.nodes)
        if before is not None and (policies, judges) == (before.policies, before.judges):
            return False
        version = 1 if before is None else before.version + 1
        self._policies = PoliciesSection(version=version, policies=policies, judges=judges)
        return True

    def _refresh_aliases(self) -> bool:
        found, before = self._fleet.aliases, self._aliases
        if before is not None and found == before.aliases:
            return False
        self._aliases = AliasesSection(version=1 if before is None else before.version + 1, aliases=found)
        return True

    def _refresh_peers(self) -> bool:
        found = self._directory.peers() if self._directory is not None else ()
        if found == (() if self._peers is None else self._peers.peers):
            return False
        self._peers = PeersSection(version=1 if self._peers is None else self._peers.version + 1, peers=found)
        return True

    # Streams -------------------------------------------------------------------------------------

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: GatewayGate | None = None
    ) -> None:
        task = asyncio.current_task()
        assert task is not None, "stream callbacks run in a task"  # noqa: S101 - tells mypy what asyncio promises
        self._tasks.add(task)
        try:
            await self._serve(reader, _Stream(writer, gate))
        except (FrameError, msgspec.MsgspecError) as error:
            _log.warning("gateway.unreadable", error=str(error))
        except (OSError, TimeoutError) as error:
            _log.info("gateway.stream_broke", error=str(error))
        except asyncio.CancelledError:
            # Ended by `stop`. Not raised on: asyncio's streams would log that as a fault (Python 3.11).
            return
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, stream: "_Stream") -> None:
        hello = await _read(reader, most=MAX_HELLO)
        if not isinstance(hello, GatewayHello) or not await stream.admits(hello):
            return
        gateway = GatewayLive(
            name=hello.gateway, version=hello.version, pid=hello.pid, connected_at=self._clock.monotonic()
        )
        self._streams.add(stream)
        self._board.connect(gateway)
        if hello.peer is not None:
            self._reachable[gateway.name] = Peer(name=gateway.name, address=hello.peer)
        _log.info("gateway.connected", gateway=gateway.name)
        sending = asyncio.ensure_future(stream.send_views(self))
        try:
            while (message := await _read(reader)) is not None:
                if isinstance(message, GatewayReport):
                    self._board.report(message.report)
                elif isinstance(message, RenewCertificate):
                    await stream.answer(await self._renewed(hello, stream.holder, message.request))
        finally:
            sending.cancel()
            self._streams.discard(stream)
            self._board.disconnect(gateway)
            if all(one.name != gateway.name for one in self._board.gateways()):
                self._reachable.pop(gateway.name, None)
            _log.info("gateway.disconnected", gateway=gateway.name)
            with contextlib.suppress(asyncio.CancelledError, OSError, TimeoutError):
                await sending

    async def _renewed(self, hello: GatewayHello, holder: Holder | None, request: str) -> Renewed:
        """Give a gateway a new certificate. One on this machine is known by the socket, which is its user's alone."""
        if self._renew is None:
            return Renewed(reason='this control plane runs without tls = "on"')
        known = Identity(part=Part.GATEWAY, name=hello.gateway)
        answer = await self._renew(Renew(request=request), holder or Holder(identity=known, begins=self._clock.now()))
        if isinstance(answer, Joined):
            return Renewed(certificate=answer.certificate)
        return Renewed(reason=answer.reason)


class _Stream:
    """One gateway's stream, and the view it was sent last."""

    def __init__(self, writer: asyncio.StreamWriter, gate: GatewayGate | None) -> None:
        self.woken = asyncio.Event()
        self._writer = writer
        self._gate = gate
        self._hello: GatewayHello | None = None
        self.holder: Holder | None = None
        """Of the certificate it showed; `None` on a Unix socket."""
        self._sent: View | None = None

    async def admits(self, hello: GatewayHello) -> bool:
        """Look at who is there, and tell one that may not be why."""
        if self._gate is None:
            return True
        self._hello, self.holder = hello, holder_of(self._writer.get_extra_info("ssl_object"))
        reason = self._refusal()
        if reason is not None:
            await self._send(Refused(reason=reason))
        return reason is None

    async def answer(self, message: Renewed) -> None:
        """Send the answer to a question."""
        await self._send(message)

    def look(self) -> None:
        """Look again whether it may be connected, and let it go at once if not."""
        if self._refusal() is not None:
            self._writer.transport.abort()

    def _refusal(self) -> str | None:
        if self._gate is None or self._hello is None:
            return None
        reason = self._gate.refuse(self._hello, self.holder)
        if reason is not None:
            peer = self._writer.get_extra_info("peername")
            _log.warning("gateway.refused", peer=peer[0] if peer else None, gateway=self._hello.gateway, reason=reason)
        return reason

    async def send_views(self, hub: Hub) -> None:
        """Send the view, then what changes, and signs of life; ends by closing the stream when it cannot."""
        try:
            while True:
                view = hub.view()
                if view is not None and view != self._sent:
                    await self._send(ViewSnapshot(view=view) if self._sent is None else _delta(self._sent, view))
                    self._sent = view
                await self._pause()
        finally:
            self._writer.close()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(PING_S):
                await self.woken.wait()
        except TimeoutError:
            await self._send(Ping())
        self.woken.clear()

    async def _send(self, message: ControlMessage) -> None:
        self._writer.write(pack(message))
        async with asyncio.timeout(SEND_S):
            await self._writer.drain()


def _delta(before: View, after: View) -> ViewDelta:
    """Give what changed from one view to a later one of the same source."""
    changed = None
    if after.routes is not None and before.routes is not None and after.routes.version != before.routes.version:
        changed = routes_delta(
            before.routes.routes, after.routes.routes, base=before.routes.version, version=after.routes.version
        )
    keys = after.keys if after.keys != before.keys else None
    policies = after.policies if after.policies != before.policies else None
    aliases = after.aliases if after.aliases != before.aliases else None
    peers = after.peers if after.peers != before.peers else None
    sections = View(source=after.source, keys=keys, policies=policies, aliases=aliases, peers=peers)
    return ViewDelta(routes=changed, view=None if sections == View(source=after.source) else sections)


async def _read(reader: asyncio.StreamReader, *, most: int = MAX_FRAME) -> GatewayMessage | None:
    async with asyncio.timeout(DEAD_S):
        frame = await read_frame(reader, most=most)
    return None if frame is None else _messages.read(frame)
