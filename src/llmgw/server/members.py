"""The control planes of this cluster: each tells of itself in the store, and is asked by the others if it lives."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec.structs import replace

from llmgw.core.control_planes import control_planes
from llmgw.ports import Clock
from llmgw.schema.errors import Conflict, NotFound, StoreError
from llmgw.schema.lease import LeaseStatus
from llmgw.schema.member import Member
from llmgw.schema.summary import ControlPlaneMember
from llmgw.schema.view import Peer
from llmgw.server.changes import Changes
from llmgw.telemetry import log

POLL_S = 2.0
SILENT_S = 6.0
"""Seconds without an answer after which a control plane does not answer: three missed questions (spec, section 10)."""

_log = log.get(__name__)


class MemberStore(Protocol):
    """The table outside the fence."""

    async def load_members(self) -> tuple[Member, ...]:
        """Read all, by name."""

    async def save_member(self, member: Member) -> None:
        """Insert or replace one."""

    async def delete_member(self, name: str) -> None:
        """Forget one."""


class Asking(Protocol):
    """Asks a control plane for a sign of life."""

    async def holder_at(self, api: str) -> str | None:
        """Give who answers at `api`; `None` when nobody does."""


class Members:
    """Kept up to date in the background; reading never waits."""

    def __init__(self, *, me: Member, store: MemberStore, peers: Asking, clock: Clock) -> None:
        self.changes = Changes()
        """Told when what members say of themselves changed."""
        self.gateways: Callable[[], tuple[Peer, ...]] = tuple
        """Gives the gateways of this control plane that others can reach. May be set."""
        self._me = me
        self._store = store
        self._peers = peers
        self._clock = clock
        self._known: tuple[Member, ...] = (me,)
        self._answered: dict[str, float] = {}
        self._told: str | None = None

    async def run(self) -> None:
        """Look every two seconds until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """Read who there is, tell of this one, and ask the others. A store that is away leaves what was known."""
        try:
            await self._meet()
        except StoreError as error:
            self._tell("members.store_away", error.message)
        await asyncio.gather(*[self._ask(member) for member in self._known if member.holder != self._me.holder])

    def all(self) -> tuple[Member, ...]:
        """Give all control planes that ever told of themselves and were not forgotten, this one included."""
        return self._known

    def described(self, lease: LeaseStatus) -> tuple[ControlPlaneMember, ...]:
        """Say of each what it does now."""
        return control_planes(self._known, answering=self._answering(), this=self._me.holder, lease=lease)

    def agent_addresses(self) -> tuple[str, ...]:
        """Give where agents reach the control planes, this one first."""
        others = (member.agents for member in self._known if member.holder != self._me.holder)
        return tuple(address for address in dict.fromkeys((self._me.agents, *others)) if address)

    def peers(self) -> tuple[Peer, ...]:
        """Give all gateways that other gateways can reach, whichever control plane they are connected to."""
        found = {peer.name: peer for member in self._known for peer in member.gateways}
        found.update((peer.name, peer) for peer in self.gateways())
        return tuple(found[name] for name in sorted(found))

    async def forget(self, name: str) -> None:
        """Forget a control plane that is gone. Raises `NotFound`, and `Conflict` for one that answers."""
        member = next((member for member in self._known if member.name == name), None)
        if member is None:
            raise NotFound(f"there is no control plane {name!r}", hint="llmgw ctl server list shows those there are")
        if member.holder == self._me.holder or member.holder in self._answering():
            raise Conflict(f"{name} answers at {member.api}: it would tell of itself again", hint="stop it first")
        await self._store.delete_member(name)
        self._know(one for one in self._known if one.name != name)

    async def _meet(self) -> None:
        known = {member.name: member for member in await self._store.load_members()}
        me = replace(self._me, gateways=self.gateways())
        found = known.get(me.name)
        if found != me and await self._may_replace(found):
            await self._store.save_member(me)
            known[me.name] = me
        self._know(known.values() if me.name in known and known[me.name] == me else [*known.values(), me])

    async def _may_replace(self, found: Member | None) -> bool:
        """False while another process of this name lives: each would write over what the other says."""
        if found is None or found.holder == self._me.holder or found.api == self._me.api:
            return True
        if await self._peers.holder_at(found.api) != found.holder:
            return True
        self._tell("members.name_taken", f"{found.api} is named {found.name} as well: give each a name of its own")
        return False

    async def _ask(self, member: Member) -> None:
        holder = await self._peers.holder_at(member.api)
        if holder:
            self._answered[holder] = self._clock.monotonic()

    def _answering(self) -> frozenset[str]:
        oldest = self._clock.monotonic() - SILENT_S
        self._answered = {holder: at for holder, at in self._answered.items() if at > oldest}
        return frozenset(self._answered)

    def _know(self, members: Iterable[Member]) -> None:
        known = tuple(members)
        if known != self._known:
            self._known = known
            self._told = None
            self.changes.notify()

    def _tell(self, event: str, text: str) -> None:
        """Tell a problem once, not at each look."""
        if self._told != text:
            self._told = text
            _log.warning(event, problem=text)


class WhoLeads(Protocol):
    """Tells who holds the lease."""

    def status(self) -> LeaseStatus:
        """Give the lease as it is seen now."""


class Directory:
    """Where agents reach the control planes."""

    def __init__(self, lease: WhoLeads, members: Members) -> None:
        self._lease = lease
        self._members = members

    def agent_addresses(self) -> tuple[str, ...]:
        """Give all addresses, this control plane's first."""
        return self._members.agent_addresses()

    def leader_address(self) -> str | None:
        """Give where agents reach the leader; `None` while nobody is known to lead."""
        status = self._lease.status()
        if status.leader_name is None:
            return None
        return next((one.agents or None for one in self._members.all() if one.holder == status.holder), None)

    def leader(self) -> str | None:
        """Give who holds the lease, as the row says; `None` when nobody does."""
        status = self._lease.status()
        return status.holder if status.leader_name is not None else None
