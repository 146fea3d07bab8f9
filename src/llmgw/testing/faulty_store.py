"""A store with faults on demand: transactions that fail, take long, or kill their caller."""

from collections.abc import Callable, Sequence

from llmgw.ports import FleetRows, LeaderStore, Write
from llmgw.schema.alias import Alias
from llmgw.schema.backup import Content
from llmgw.schema.event import Event
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.identity import Trust
from llmgw.schema.key import AdminToken, ApiKey
from llmgw.schema.lease import Fence
from llmgw.schema.member import Member
from llmgw.store.memory import MemoryStore


class FaultyStore:
    """A store in which a transaction may fail or kill its caller, before or after it took place."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.applied = 0
        """Transactions that took place."""
        self.before: Callable[[], None] = lambda: None
        """Called before each transaction; may raise."""
        self.during: Callable[[], None] = lambda: None
        """Called while each transaction takes place."""
        self.after: Callable[[], None] = lambda: None
        """Called after each transaction took place and before its caller knows; may raise."""

    async def load_fleet(self) -> FleetRows:
        """Read all fleet tables."""
        return await self._store.load_fleet()

    async def load_keys(self) -> tuple[ApiKey, ...]:
        """Read all client keys."""
        return await self._store.load_keys()

    async def load_admin_tokens(self) -> tuple[AdminToken, ...]:
        """Read all operators' tokens."""
        return await self._store.load_admin_tokens()

    async def load_trust(self) -> Trust:
        """Read join tokens and the machines that joined."""
        return await self._store.load_trust()

    async def load_policies(self) -> tuple[StoredPolicy, ...]:
        """Read the policies."""
        return await self._store.load_policies()

    async def load_aliases(self) -> tuple[Alias, ...]:
        """Read the aliases."""
        return await self._store.load_aliases()

    async def load_settings(self) -> dict[str, str]:
        """Read the settings."""
        return await self._store.load_settings()

    async def load_version(self) -> int:
        """Read the number of writes."""
        return await self._store.load_version()

    async def load_members(self) -> tuple[Member, ...]:
        """Read the control planes."""
        return await self._store.load_members()

    async def save_member(self, member: Member) -> None:
        """Save what a control plane says of itself."""
        await self._store.save_member(member)

    async def delete_member(self, name: str) -> None:
        """Forget a control plane."""
        await self._store.delete_member(name)

    async def load_events(self, *, limit: int, before: int | None = None) -> tuple[Event, ...]:
        """Read the newest events."""
        return await self._store.load_events(limit=limit, before=before)

    async def dump(self) -> Content:
        """Read everything that backups hold."""
        return await self._store.dump()

    def leader(self, fence: Fence) -> LeaderStore:
        """Give the writer that checks `fence` and brings in the faults."""
        return _FaultyLeaderStore(self, self._store.leader(fence))

    async def close(self) -> None:
        """Do nothing."""


class _FaultyLeaderStore:
    def __init__(self, faults: FaultyStore, inner: LeaderStore) -> None:
        self._faults = faults
        self._inner = inner

    async def apply(self, writes: Sequence[Write]) -> None:
        """Apply, with the faults of the moment."""
        self._faults.before()
        self._faults.during()
        await self._inner.apply(writes)
        self._faults.applied += 1
        self._faults.after()
