"""Handing the lead over when agents reach a standby and not this leader: looks, asks the others, lets go."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol

from llmgw.core.hand_over import REMEMBERED_S, HandOver, Keep, Sight, barred_s, blind, decide
from llmgw.ports import AppendEvent, Clock
from llmgw.schema.errors import LlmgwError
from llmgw.schema.event import Event, Severity
from llmgw.schema.hand_over import StandbyWord
from llmgw.schema.lease import LeaseStatus, Standing
from llmgw.schema.member import Member
from llmgw.server.asked import Asked
from llmgw.server.fleet import Fleet
from llmgw.server.live import LiveNodes
from llmgw.server.standby import peer_secret
from llmgw.telemetry import log

LOOK_S = 2.0
LEAVE_S = 10.0
"""How long who lets go leaves the lease to others; if nobody took it by then, nobody can."""

_log = log.get(__name__)
_ORDINARY = frozenset({Keep.HAS_ENOUGH, Keep.JUST_BEGAN, Keep.NOT_FOR_LONG})
"""Each change of the leader begins with these."""


class Asking(Protocol):
    """Asks other control planes, each with a deadline."""

    async def standby_word(self, api: str, *, secret: str) -> StandbyWord | None:
        """Give what the control plane at `api` says of itself."""

    async def ask_to_wait(self, api: str, seconds: float, *, secret: str) -> bool:
        """Have the control plane at `api` leave the lease alone for a moment; False when it did not say yes."""


class Lease(Protocol):
    """The right to lead."""

    def status(self) -> LeaseStatus:
        """Say where this process stands with the lease."""

    def step_down(self, for_s: float) -> None:
        """Let go if it is held, and do not take it for `for_s` seconds."""


class HandingOver:
    """One control plane's side: what it does as the leader, and what it tells another one that leads.

    `hearing` stands still while this process is deaf: a leader that hears nobody since it is starved is not blind.
    """

    def __init__(
        self,
        *,
        name: str,
        fleet: Fleet,
        lease: Lease,
        live: LiveNodes,
        asked: Asked,
        others: Callable[[], Iterable[Member]],
        peers: Asking,
        clock: Clock,
        hearing: Clock,
        count: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._fleet = fleet
        self._lease = lease
        self._live = live
        self._asked = asked
        self._others = others
        self._peers = peers
        self._clock = clock
        self._hearing = hearing
        self._count = count
        self._term: int | None = None
        self._led_at = 0.0
        self._blind_at: float | None = None
        self._handed: list[float] = []
        self._told: Keep | None = None

    # The leader's side ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look once, and hand over if that is better for the agents."""
        if not self._fleet.is_leader():
            self._term = None
            return
        decided = await self._decided()
        if isinstance(decided, HandOver):
            await self._hand_over(decided)
        elif decided is not self._told:
            self._told = decided
            if decided not in _ORDINARY:
                _log.warning("leader.few_agents", keeps_the_lead=decided)

    # A standby's side ----------------------------------------------------------------------------

    def word(self) -> StandbyWord:
        """Say whether this one would lead, and whose agents ask it."""
        status = self._lease.status()
        willing = status.standing is Standing.STANDING_BY and not status.abstains and status.store_problem is None
        return StandbyWord(name=self._name, nodes=self._asked.lately(), may_lead=willing and not self._barred())

    def wait(self, seconds: float) -> bool:
        """Leave the lease alone for so long; False where this one leads."""
        if self._lease.status().standing is not Standing.STANDING_BY:
            return False
        self._lease.step_down(min(seconds, LEAVE_S))
        return True

    # ---------------------------------------------------------------------------------------------

    async def _decided(self) -> HandOver | Keep:
        sight = self._sight(())
        early = decide(sight)
        if early is not Keep.NOBODY_STANDS_BY:
            return early
        secret = peer_secret(self._fleet.hash_key)
        found = await asyncio.gather(
            *[self._peers.standby_word(one.api, secret=secret) for one in self._members().values()]
        )
        # Seen anew: while the others were asked, agents may have come back.
        return decide(self._sight(tuple(word for word in found if word is not None)))

    def _sight(self, words: tuple[StandbyWord, ...]) -> Sight:
        now = self._hearing.monotonic()
        term = self._lease.status().term
        if term != self._term:
            self._term, self._led_at, self._blind_at = term, now, None
        known = frozenset(node.id for node in self._fleet.rows.nodes)
        connected = frozenset(one.node for one in self._live.all() if one.connected)
        if not blind(known, connected):
            self._blind_at = None
        elif self._blind_at is None:
            self._blind_at = now
        return Sight(
            known=known,
            connected=connected,
            leading_s=now - self._led_at,
            blind_s=0.0 if self._blind_at is None else now - self._blind_at,
            handed=len(self._lately()),
            words=words,
        )

    async def _hand_over(self, decided: HandOver) -> None:
        told = (
            f"{self._name} hands the lead over to {decided.to}: agents of {len(decided.nodes)} nodes reach that one "
            f"and not {self._name}; look at the network between {self._name} and the nodes"
        )
        try:
            # Told while it still leads. It must be let go of only where the store answers: else nobody could take it.
            await self._fleet.write((AppendEvent(event=_event(self._clock.now(), told)),))
        except LlmgwError as error:
            _log.warning("leader.cannot_hand_over", error=error.message)
            return
        members, secret = self._members(), peer_secret(self._fleet.hash_key)
        await asyncio.gather(
            *[self._peers.ask_to_wait(members[name].api, LEAVE_S, secret=secret) for name in decided.wait]
        )
        _log.warning("leader.hands_over", to=decided.to, nodes=len(decided.nodes), wait=decided.wait)
        self._handed = [*self._lately(), self._clock.monotonic()]
        self._count()
        self._lease.step_down(LEAVE_S)

    def _members(self) -> dict[str, Member]:
        return {one.name: one for one in self._others() if one.name != self._name}

    def _lately(self) -> list[float]:
        oldest = self._clock.monotonic() - REMEMBERED_S
        return [at for at in self._handed if at > oldest]

    def _barred(self) -> bool:
        handed = self._lately()
        return bool(handed) and self._clock.monotonic() - handed[-1] < barred_s(len(handed))


def _event(now: datetime, told: str) -> Event:
    return Event(at=now, kind="leader.hands_over", severity=Severity.WARNING, message=told)
