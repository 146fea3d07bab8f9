"""The store in memory: for tests, demos and simulations. It keeps every promise of the ports but durability."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from llmgw.ports import (
    AppendEvent,
    Clock,
    DeleteAlias,
    DeleteEnrolment,
    DeleteJoinToken,
    DeleteModel,
    DeleteNode,
    DeletePolicy,
    DeleteReplica,
    FleetRows,
    PutAdminToken,
    PutAlias,
    PutApiKey,
    PutEnrolment,
    PutJoinToken,
    PutModel,
    PutNode,
    PutPolicy,
    PutReplica,
    PutSetting,
    PutStatus,
    ReplaceAll,
    Write,
)
from llmgw.schema.alias import Alias
from llmgw.schema.backup import Content, Row
from llmgw.schema.errors import Fenced, StoreError, StoreUnavailable
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
from llmgw.store.backend import Observe
from llmgw.store.backup import KINDS
from llmgw.store.migrate import HEAD
from llmgw.store.statements import KEPT_EVENTS

T = TypeVar("T")


class MemoryStore:
    """A `Store` whose rows live as long as it does. Its lease stores share one row and may be used by any thread."""

    def __init__(self, clock: Clock, *, observe: Observe | None = None) -> None:
        self._rows = _Rows(clock, observe)

    @property
    def away(self) -> bool:
        """While True, every call raises `StoreUnavailable`. May be set."""
        return self._rows.away

    @away.setter
    def away(self, away: bool) -> None:
        self._rows.away = away

    async def load_fleet(self) -> FleetRows:
        """Read all fleet tables in one consistent snapshot."""
        return await self._rows.run("load_fleet", lambda rows: rows.tables.fleet())

    async def load_keys(self) -> tuple[ApiKey, ...]:
        """Read all client keys, revoked ones included."""
        return await self._rows.run("load_keys", lambda rows: _by_id(rows.tables.api_keys))

    async def load_admin_tokens(self) -> tuple[AdminToken, ...]:
        """Read all operators' tokens, revoked ones included."""
        return await self._rows.run("load_admin_tokens", lambda rows: _by_id(rows.tables.admin_tokens))

    async def load_trust(self) -> Trust:
        """Read join tokens and the machines that joined."""
        return await self._rows.run(
            "load_trust",
            lambda rows: Trust(tokens=_by_id(rows.tables.join_tokens), enrolments=_by_id(rows.tables.enrolments)),
        )

    async def load_policies(self) -> tuple[StoredPolicy, ...]:
        """Read the policies of the guardrails, by name."""
        return await self._rows.run("load_policies", lambda rows: _by_id(rows.tables.policies))

    async def load_aliases(self) -> tuple[Alias, ...]:
        """Read the aliases of models, by name."""
        return await self._rows.run("load_aliases", lambda rows: _by_id(rows.tables.aliases))

    async def load_settings(self) -> dict[str, str]:
        """Read the cluster settings."""
        return await self._rows.run("load_settings", lambda rows: dict(rows.tables.settings))

    async def load_version(self) -> int:
        """Read a number that grows with each write of a leader: equal numbers, equal tables."""
        return await self._rows.run("load_version", lambda rows: rows.version)

    async def load_members(self) -> tuple[Member, ...]:
        """Read what control planes say of themselves, by name."""
        return await self._rows.run("load_members", lambda rows: _by_id(rows.members))

    async def save_member(self, member: Member) -> None:
        """Insert or replace what one control plane says of itself; any may, whoever leads."""
        await self._rows.run("save_member", lambda rows: rows.members.update({member.name: member}))

    async def delete_member(self, name: str) -> None:
        """Forget a control plane; no-op when it is not known."""
        await self._rows.run("delete_member", lambda rows: rows.members.pop(name, None))

    async def load_events(self, *, limit: int, before: int | None = None) -> tuple[Event, ...]:
        """Read the newest `limit` events with `seq` below `before`, newest first."""
        return await self._rows.run("load_events", lambda rows: rows.tables.newest_events(limit, before))

    async def dump(self) -> Content:
        """Read everything that backups hold in one consistent snapshot."""
        return await self._rows.run("dump", _content)

    def leader(self, fence: Fence) -> "MemoryLeaderStore":
        """Give the writer that checks `fence` in each transaction."""
        return MemoryLeaderStore(self._rows, fence)

    def lease_store(self) -> "MemoryLeaseStore":
        """Give the lease row."""
        return MemoryLeaseStore(self._rows)

    async def close(self) -> None:
        """Do nothing: there is nothing to let go of."""


class MemoryLeaderStore:
    """The leader's writer."""

    def __init__(self, rows: "_Rows", fence: Fence) -> None:
        self._rows = rows
        self._fence = fence

    async def apply(self, writes: Sequence[Write]) -> None:
        """Carry out all writes in one transaction, or none. Raises `Fenced` or `StoreUnavailable`."""

        def work(rows: _Rows) -> None:
            rows.check(self._fence)
            changed = rows.tables.copy()
            for write in writes:
                changed.carry_out(write)
            rows.tables = changed
            rows.version += 1

        await self._rows.run("apply", work)


class MemoryLeaseStore:
    """A `LeaseStore` over the shared row."""

    def __init__(self, rows: "_Rows") -> None:
        self._rows = rows

    def read(self) -> LeaseRow | None:
        """Read the row; `None` when nobody ever led."""
        return self._rows.call("lease_read", lambda rows: rows.lease)

    def take(self, seen: LeaseRow | None, new: LeaseRow) -> bool:
        """Put `new` if the row still equals `seen` in holder, epoch, beat and released."""
        return self._rows.call("lease_take", lambda rows: rows.put_lease(new, _mark(rows.lease) == _mark(seen)))

    def renew(self, row: LeaseRow) -> bool:
        """Set beat to `row.beat` if holder and epoch are still `row`'s, it is not released and its beat is lower."""

        def work(rows: _Rows) -> bool:
            now = rows.lease
            ours = now is not None and now.holder == row.holder and now.epoch == row.epoch and not now.released
            return rows.put_lease(row, ours and now is not None and now.beat < row.beat)

        return self._rows.call("lease_renew", work)

    def release(self, holder: str, epoch: int) -> bool:
        """Mark the row released if holder and epoch still match."""

        def work(rows: _Rows) -> bool:
            now = rows.lease
            if now is None or now.holder != holder or now.epoch != epoch:
                return False
            return rows.put_lease(replace(now, released=True), expected=True)

        return self._rows.call("lease_release", work)

    def proves_old_holder_dead(self) -> bool:
        """No lock, no proof."""
        return False

    def close(self) -> None:
        """Do nothing: there is nothing to let go of."""


@dataclass
class _Tables:
    """All tables that backups hold, under their names, by id."""

    nodes: dict[str, Node] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)
    model_statuses: dict[str, ModelStatus] = field(default_factory=dict)
    replicas: dict[str, Replica] = field(default_factory=dict)
    api_keys: dict[str, ApiKey] = field(default_factory=dict)
    admin_tokens: dict[str, AdminToken] = field(default_factory=dict)
    join_tokens: dict[str, JoinToken] = field(default_factory=dict)
    enrolments: dict[str, Enrolment] = field(default_factory=dict)
    policies: dict[str, StoredPolicy] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    events: dict[int, Event] = field(default_factory=dict)
    last_seq: int = 0

    def copy(self) -> "_Tables":
        """Copy the tables, not the values in them, which are frozen."""
        tables = {f.name: dict(getattr(self, f.name)) for f in fields(self) if f.name != "last_seq"}
        return _Tables(**tables, last_seq=self.last_seq)

    def fleet(self) -> FleetRows:
        return FleetRows(
            nodes=_by_id(self.nodes),
            models=_by_id(self.models),
            statuses=_by_id(self.model_statuses),
            replicas=_by_id(self.replicas),
        )

    def newest_events(self, limit: int, before: int | None) -> tuple[Event, ...]:
        found = [event for seq, event in self.events.items() if before is None or seq < before]
        return tuple(reversed(found))[:limit]

    def carry_out(self, write: Write) -> None:  # noqa: C901, PLR0912 - a table of writes, one line each
        match write:
            case PutNode(node=node):
                self.nodes[node.id] = node
            case DeleteNode(id=node_id):
                self.nodes.pop(node_id, None)
            case PutModel(model=model):
                self.models[model.name] = model
            case DeleteModel(name=name):
                self.models.pop(name, None)
                self.model_statuses.pop(name, None)
            case PutStatus(status=status):
                self.model_statuses[status.model] = status
            case PutReplica(replica=replica):
                self.replicas[replica.id] = replica
            case DeleteReplica(id=replica_id):
                self.replicas.pop(replica_id, None)
            case PutApiKey(key=key):
                self.api_keys[key.id] = key
            case PutAdminToken(token=token):
                self.admin_tokens[token.id] = token
            case PutJoinToken(token=join_token):
                self.join_tokens[join_token.id] = join_token
            case DeleteJoinToken(id=join_token_id):
                self.join_tokens.pop(join_token_id, None)
            case PutEnrolment(enrolment=enrolment):
                self.enrolments[enrolment.id] = enrolment
            case DeleteEnrolment(id=enrolment_id):
                self.enrolments.pop(enrolment_id, None)
            case PutPolicy(policy=policy):
                self.policies[policy.policy.name] = policy
            case DeletePolicy(name=name):
                self.policies.pop(name, None)
            case PutAlias(alias=alias):
                self.aliases[alias.name] = alias
            case DeleteAlias(name=name):
                self.aliases.pop(name, None)
            case PutSetting(name=name, value=value):
                self.settings[name] = value
            case AppendEvent(event=event):
                self.last_seq += 1
                self.events[self.last_seq] = replace(event, seq=self.last_seq)
                self.events.pop(self.last_seq - KEPT_EVENTS, None)
            case ReplaceAll(content=content):
                self.fill(content)

    def rows(self) -> dict[str, tuple[Row, ...]]:
        """Give all tables as a database keeps them."""
        found: dict[str, tuple[Row, ...]] = {
            name: tuple({"id": key, "body": _text(value)} for key, value in sorted(getattr(self, name).items()))
            for name in KINDS
            if name != "events"
        }
        found["settings"] = tuple({"id": key, "value": value} for key, value in sorted(self.settings.items()))
        found["events"] = tuple(
            {"seq": seq, "body": _text(replace(event, seq=None))} for seq, event in self.events.items()
        )
        return found

    def fill(self, content: Content) -> None:
        """Put what a backup holds in place of everything; events are numbered anew."""
        for name, kind in KINDS.items():
            rows = content.tables.get(name, ()) if name != "events" else ()
            setattr(self, name, {row["id"]: msgspec.json.decode(str(row["body"]), type=kind) for row in rows})
        self.settings = {str(row["id"]): str(row["value"]) for row in content.tables.get("settings", ())}
        for row in content.tables.get("events", ()):
            self.carry_out(AppendEvent(event=msgspec.json.decode(str(row["body"]), type=Event)))


class _Rows:
    """What a database would hold, one call at a time."""

    def __init__(self, clock: Clock, observe: Observe | None) -> None:
        self._clock = clock
        self._observe = observe
        self._lock = Lock()
        self.tables = _Tables()
        self.lease: LeaseRow | None = None
        self.members: dict[str, Member] = {}
        self.version = 0
        self.away = False

    async def run(self, name: str, work: "Callable[[_Rows], T]") -> T:
        await asyncio.sleep(0)  # as with a real store, others get a turn meanwhile
        return self.call(name, work)

    def call(self, name: str, work: "Callable[[_Rows], T]") -> T:
        started, code = self._clock.monotonic(), None
        try:
            with self._lock:
                if self.away:
                    raise StoreUnavailable(f"store in memory: no answer to {name}, it is set to be away")
                return work(self)
        except StoreError as error:
            code = error.code
            raise
        finally:
            if self._observe is not None:
                self._observe(name, self._clock.monotonic() - started, code)

    def check(self, fence: Fence) -> None:
        lease = self.lease
        if lease is None or (lease.holder, lease.epoch, lease.released) != (fence.holder, fence.epoch, False):
            raise Fenced(f"nothing was written: this control plane wrote as epoch {fence.epoch}, and does not lead")

    def put_lease(self, row: LeaseRow, expected: bool) -> bool:  # noqa: FBT001 - the condition of a compare-and-set
        if expected:
            self.lease = row
        return expected


def _content(rows: _Rows) -> Content:
    return Content(schema=HEAD, epoch=rows.lease.epoch if rows.lease else 0, tables=rows.tables.rows())


def _text(value: Value) -> str:
    return msgspec.json.encode(value).decode()


def _by_id(table: Mapping[str, T]) -> tuple[T, ...]:
    return tuple(table[key] for key in sorted(table))


def _mark(row: LeaseRow | None) -> tuple[str, int, int, bool] | None:
    return None if row is None else (row.holder, row.epoch, row.beat, row.released)
