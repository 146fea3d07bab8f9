"""The replicated store's members, looked at every two seconds in the background; whoever asks gets the last look."""

import asyncio
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from llmgw.core.store_members import store_state
from llmgw.schema.store import Listed, MemberSeen, PostgresWord, StoreState
from llmgw.server.patroni import Address, PatroniClient
from llmgw.telemetry import log

POLL_S = 2.0
POSTGRES_S = 1.0
"""How long a member's PostgreSQL is waited for."""

Place = tuple[str, str]
Words = Callable[[Iterable[Place]], dict[Place, PostgresWord | None]]
"""Asks PostgreSQL servers, by host and port; blocks up to `POSTGRES_S`."""

_log = log.get(__name__)


class StoreWatch:
    """Watches the members of one Patroni cluster.

    `seeds` are roots of Patroni's REST; members that any of them lists are asked as well, and go on being asked when
    the list forgets them: that is when they matter.
    """

    def __init__(self, *, seeds: tuple[str, ...], patroni: PatroniClient, words: Words) -> None:
        self._seeds = seeds
        self._patroni = patroni
        self._words = words
        self._known: dict[str, Address] = {}
        self._state: StoreState | None = None

    @property
    def state(self) -> StoreState | None:
        """The last look; `None` before the first."""
        return self._state

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_S)

    async def look(self) -> None:
        """Ask everybody, all at once."""
        listed = await self._list()
        addresses = (*self._known.values(), *self._unnamed())
        seen = await asyncio.gather(*[self._patroni.word(address.rest) for address in addresses])
        places = [(address.host, str(address.port)) for address in addresses]
        words = await asyncio.to_thread(self._words, places)
        state = store_state(
            tuple(
                MemberSeen(
                    name=address.name,
                    host=address.host,
                    listed=listed.get(address.name),
                    patroni=word,
                    postgres=words.get(place),
                )
                for address, word, place in zip(addresses, seen, places, strict=True)
            )
        )
        self._tell(state)
        self._state = state

    async def _list(self) -> dict[str, Listed]:
        """Take the list of the first that gives one, and learn its addresses."""
        rests = dict.fromkeys((*self._seeds, *(address.rest for address in self._known.values())))
        for found in await asyncio.gather(*[self._patroni.members(rest) for rest in rests if rest]):
            if found:
                self._known.update((address.name, address) for address in found)
                return {address.name: listed for address, listed in found.items()}
        return {}

    def _unnamed(self) -> tuple[Address, ...]:
        """Give seeds that no list ever named, under their host's name."""
        hosts = {address.host for address in self._known.values()}
        named = {urlsplit(rest).hostname or rest: rest for rest in self._seeds}
        return tuple(
            Address(name=host, host=host, rest=rest, port=5432) for host, rest in named.items() if host not in hosts
        )

    def _tell(self, state: StoreState) -> None:
        """Log what is wrong once, not at each look."""
        before = self._state
        if before is not None and _problems(before) == _problems(state):
            return
        for name, problem in _problems(state).items():
            _log.warning("store.trouble", member=name or None, problem=problem)


def _problems(state: StoreState) -> dict[str, str]:
    found = {member.name: member.problem for member in state.members if member.problem}
    return found | ({"": state.problem} if state.problem else {})
