"""What the core's callers need from the outside, as Protocols. Adapters live in ring 2."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from llmgw.schema.alias import Alias
from llmgw.schema.backup import Content
from llmgw.schema.event import Event
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.identity import Enrolment, JoinToken, Trust
from llmgw.schema.key import AdminToken, ApiKey
from llmgw.schema.lease import Fence, LeaseRow
from llmgw.schema.member import Member
from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.node import Node
from llmgw.schema.replica import Replica
from llmgw.schema.value import Value


class Clock(Protocol):
    """Time. Monotonic for decisions, wall time for people and stored instants."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back (CLOCK_BOOTTIME where there is one)."""

    def now(self) -> datetime:
        """Give the wall time, aware, in UTC."""


class FleetRows(Value, frozen=True, kw_only=True):
    """All fleet tables at one moment."""

    nodes: tuple[Node, ...] = ()
    models: tuple[Model, ...] = ()
    statuses: tuple[ModelStatus, ...] = ()
    replicas: tuple[Replica, ...] = ()


class PutNode(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace a node."""

    node: Node


class DeleteNode(Value, frozen=True, kw_only=True, tag=True):
    """Remove a node; no-op when absent."""

    id: str


class PutModel(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace a model."""

    model: Model


class DeleteModel(Value, frozen=True, kw_only=True, tag=True):
    """Remove a model and its status; no-op when absent."""

    name: str


class PutStatus(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace a model's status."""

    status: ModelStatus


class PutReplica(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace a replica."""

    replica: Replica


class DeleteReplica(Value, frozen=True, kw_only=True, tag=True):
    """Remove a replica; no-op when absent."""

    id: str


class PutApiKey(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace a client key."""

    key: ApiKey


class PutAdminToken(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace an operator's token."""

    token: AdminToken


class PutJoinToken(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace a join token."""

    token: JoinToken


class DeleteJoinToken(Value, frozen=True, kw_only=True, tag=True):
    """Forget a join token; no-op when absent."""

    id: str


class PutEnrolment(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace a machine that joined."""

    enrolment: Enrolment


class DeleteEnrolment(Value, frozen=True, kw_only=True, tag=True):
    """Forget that a machine joined (`part/name`); no-op when absent."""

    id: str


class PutPolicy(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace a policy of the guardrails."""

    policy: StoredPolicy


class DeletePolicy(Value, frozen=True, kw_only=True, tag=True):
    """Delete a policy; no-op when absent."""

    name: str


class PutAlias(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace an alias."""

    alias: Alias


class DeleteAlias(Value, frozen=True, kw_only=True, tag=True):
    """Delete an alias; no-op when absent."""

    name: str


class PutSetting(Value, frozen=True, kw_only=True, tag=True):
    """Insert or replace a cluster setting."""

    name: str
    value: str


class AppendEvent(Value, frozen=True, kw_only=True, tag=True):
    """Append an event; the store gives `seq`."""

    event: Event


class ReplaceAll(Value, frozen=True, kw_only=True, tag=True):
    """Put what a backup holds in place of all rows; other writes of the same transaction come after it."""

    content: Content
    """Of the present schema."""


Write = (
    PutNode
    | DeleteNode
    | PutModel
    | DeleteModel
    | PutStatus
    | PutReplica
    | DeleteReplica
    | PutApiKey
    | PutAdminToken
    | PutJoinToken
    | DeleteJoinToken
    | PutEnrolment
    | DeleteEnrolment
    | PutPolicy
    | DeletePolicy
    | PutAlias
    | DeleteAlias
    | PutSetting
    | AppendEvent
    | ReplaceAll
)


class LeaderStore(Protocol):
    """The only way to write fleet tables."""

    async def apply(self, writes: Sequence[Write]) -> None:
        """Carry out all writes in one transaction, or none.

        Raises `Fenced` when the lease row names another (epoch, holder) or is released, `StoreUnavailable`
        when the store did not answer in time; then it is unknown whether the writes took place.
        """


class Store(Protocol):
    """The database. Every call has a client-side deadline and raises `StoreUnavailable` beyond it."""

    async def load_fleet(self) -> FleetRows:
        """Read all fleet tables in one consistent snapshot."""

    async def load_keys(self) -> tuple[ApiKey, ...]:
        """Read all client keys, revoked ones included."""

    async def load_admin_tokens(self) -> tuple[AdminToken, ...]:
        """Read all operators' tokens, revoked ones included."""

    async def load_trust(self) -> Trust:
        """Read join tokens and the machines that joined."""

    async def load_policies(self) -> tuple[StoredPolicy, ...]:
        """Read the policies of the guardrails, by name."""

    async def load_aliases(self) -> tuple[Alias, ...]:
        """Read the aliases of models, by name."""

    async def load_settings(self) -> dict[str, str]:
        """Read the cluster settings."""

    async def load_version(self) -> int:
        """Read a number that grows with each write of a leader: equal numbers, equal tables."""

    async def load_members(self) -> tuple[Member, ...]:
        """Read what control planes say of themselves, by name."""

    async def save_member(self, member: Member) -> None:
        """Insert or replace what one control plane says of itself; any may, whoever leads."""

    async def delete_member(self, name: str) -> None:
        """Forget a control plane; no-op when it is not known."""

    async def load_events(self, *, limit: int, before: int | None = None) -> tuple[Event, ...]:
        """Read the newest `limit` events with `seq` below `before`, newest first."""

    async def dump(self) -> Content:
        """Read everything that backups hold in one consistent snapshot. Has a longer deadline than other calls."""

    def leader(self, fence: Fence) -> LeaderStore:
        """Give the writer that checks `fence` in each transaction."""

    async def close(self) -> None:
        """Close all connections."""


class LeaseStore(Protocol):
    """The lease row. Synchronous: it is called from the lease's own thread, on a connection of its own.

    Every call keeps a client-side deadline of 1 s, raises `StoreUnavailable` beyond it and drops its connection then.
    """

    def read(self) -> LeaseRow | None:
        """Read the row; `None` when nobody ever led."""

    def take(self, seen: LeaseRow | None, new: LeaseRow) -> bool:
        """Compare-and-set: put `new` if the row still equals `seen` in holder, epoch, beat and released."""

    def renew(self, row: LeaseRow) -> bool:
        """Set beat to `row.beat` if holder and epoch are still `row`'s, it is not released and its beat is lower.

        The last condition keeps a renewal that was given up and arrives late from undoing a newer one.
        """

    def release(self, holder: str, epoch: int) -> bool:
        """Mark the row released if holder and epoch still match."""

    def proves_old_holder_dead(self) -> bool:
        """True when an exclusive lock held by this process proves that no earlier holder lives (SQLite)."""

    def close(self) -> None:
        """Close the connection and drop the lock."""
