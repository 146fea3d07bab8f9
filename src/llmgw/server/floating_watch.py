"""The floating address, looked at every two seconds from this host; who has it for no good reason gives it up."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from llmgw.core.floating import floating_status, must_remove
from llmgw.schema.floating import FloatingSeen, FloatingStatus, HostWord
from llmgw.schema.lease import LeaseStatus
from llmgw.schema.member import Member
from llmgw.server.floating import ThisHost
from llmgw.telemetry import log

POLL_S = 2.0
ORPHAN_LOOKS = 3
"""So many looks in a row before an orphaned address is removed: a keepalived that restarts clears it itself."""

_log = log.get(__name__)


class Asking(Protocol):
    """Asks other control planes, each with a deadline."""

    async def host_word(self, api: str) -> HostWord | None:
        """Give what the control plane at `api` says of its host."""

    async def leader_at(self, api: str) -> str | None:
        """Give who answers at `api` as a leader."""


class Host(Protocol):
    """This host; both block."""

    def word(self) -> HostWord:
        """Say whether it has the address."""

    def remove(self) -> str | None:
        """Take the address off it. Gives what went wrong, in words."""


class FloatingWatch:
    """Watches one address. `through` is the API's root URL by that address."""

    def __init__(
        self,
        *,
        address: str,
        through: str,
        name: str,
        others: Callable[[], Iterable[Member]],
        lease: Callable[[], LeaseStatus],
        leads: Callable[[], bool],
        peers: Asking,
        host: Host | None = None,
    ) -> None:
        self._host = host or ThisHost(name, address)
        self._address = address
        self._through = through
        self._name = name
        self._others = others
        self._lease = lease
        self._leads = leads
        self._peers = peers
        self._own = HostWord(name=name, has_address=False)
        self._status: FloatingStatus | None = None
        self._orphaned = 0

    @property
    def own(self) -> HostWord:
        """What this host says of itself, for others that ask."""
        return self._own

    @property
    def status(self) -> FloatingStatus | None:
        """The last look; `None` before the first."""
        return self._status

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """Look at this host, ask the others, and ask through the address."""
        self._own = await asyncio.to_thread(self._host.word)
        await self._give_up_if_orphaned()
        others = [member for member in self._others() if member.name != self._name]
        words, answered = await asyncio.gather(
            asyncio.gather(*[self._peers.host_word(member.api) for member in others]),
            self._peers.leader_at(self._through),
        )
        before, self._status = (
            self._status,
            floating_status(
                FloatingSeen(
                    address=self._address,
                    leader=self._lease().leader_name,
                    hosts=(self._own, *(word for word in words if word is not None)),
                    silent=tuple(member.name for member, word in zip(others, words, strict=True) if word is None),
                    answered_by=answered,
                )
            ),
        )
        if self._status.problem and (before is None or before.problem != self._status.problem):
            _log.warning("floating.trouble", problem=self._status.problem)

    async def _give_up_if_orphaned(self) -> None:
        self._orphaned = self._orphaned + 1 if must_remove(self._own, leads=self._leads()) else 0
        if self._orphaned >= ORPHAN_LOOKS:
            self._orphaned = 0
            problem = await asyncio.to_thread(self._host.remove)
            _log.warning("floating.removed", address=self._address, problem=problem)
