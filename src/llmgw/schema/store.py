"""The replicated store as it is seen: each member by Patroni's list, by its own Patroni, and by its PostgreSQL."""

from enum import StrEnum

from llmgw.schema.value import Value


class StoreRole(StrEnum):
    """What a member is."""

    LEADER = "leader"
    SYNC_STANDBY = "sync standby"
    REPLICA = "replica"
    UNKNOWN = "unknown"


class Listed(Value, frozen=True, kw_only=True):
    """One member in the list that any Patroni gives (`GET /cluster`)."""

    role: str
    lag: int | None = None
    """Bytes behind the primary; `None` when Patroni does not know."""


class PatroniWord(Value, frozen=True, kw_only=True):
    """What a member's own Patroni says (`GET /patroni`, `GET /liveness`)."""

    role: str
    state: str
    alive: bool
    """Its loop turns."""


class PostgresWord(Value, frozen=True, kw_only=True):
    """What a member's PostgreSQL says itself."""

    in_recovery: bool
    timeline: int


class MemberSeen(Value, frozen=True, kw_only=True):
    """All that is known of one member now; `None` is who did not answer in time."""

    name: str
    host: str
    listed: Listed | None = None
    patroni: PatroniWord | None = None
    postgres: PostgresWord | None = None
    watchdog: bool | None = None


class StoreMember(Value, frozen=True, kw_only=True, omit_defaults=True):
    """One member as the summary shows it."""

    name: str
    host: str
    role: StoreRole
    state: str
    lag: int
    """Bytes behind; -1 unknown, 0 leader."""
    problem: str | None = None


class StoreState(Value, frozen=True, kw_only=True):
    """The members, and what is wrong with the store as a whole."""

    members: tuple[StoreMember, ...]
    problem: str | None = None
