"""Members of a replicated store: what Patroni says of all, held against what each member says of itself.

A frozen Patroni vanishes from the list once its key expires while its PostgreSQL goes on as a primary, so nothing here
trusts the list alone (facts on availability, section 1.3).
"""

from llmgw.schema.store import MemberSeen, StoreMember, StoreRole, StoreState

LAG_BYTES = 16 * 1024 * 1024
"""A standby further behind than one segment of the log is told of."""
_ROLES = {
    "leader": StoreRole.LEADER,
    "primary": StoreRole.LEADER,
    "master": StoreRole.LEADER,
    "standby_leader": StoreRole.LEADER,
    "sync_standby": StoreRole.SYNC_STANDBY,
    "quorum_standby": StoreRole.SYNC_STANDBY,
    "replica": StoreRole.REPLICA,
}
_RUNS = frozenset({"running", "streaming", "in archive recovery"})


def store_state(seen: tuple[MemberSeen, ...]) -> StoreState:
    """Give the members as people see them, sorted by name, and what is wrong with the store as a whole."""
    newest = max((one.postgres.timeline for one in seen if one.postgres and not one.postgres.in_recovery), default=0)
    members = tuple(_member(one, newest) for one in sorted(seen, key=lambda one: one.name))
    return StoreState(members=members, problem=_whole(seen, members))


def _member(seen: MemberSeen, newest: int) -> StoreMember:
    return StoreMember(
        name=seen.name,
        host=seen.host,
        role=_role(seen),
        state=_state(seen),
        lag=_lag(seen),
        problem=_problem(seen, newest),
    )


def _role(seen: MemberSeen) -> StoreRole:
    """PostgreSQL's own word first: a primary is one whatever a list says."""
    if seen.postgres is not None and not seen.postgres.in_recovery:
        return StoreRole.LEADER
    for told in (seen.listed, seen.patroni):
        if told is not None and told.role in _ROLES:
            return _ROLES[told.role]
    return StoreRole.UNKNOWN if seen.postgres is None else StoreRole.REPLICA


def _state(seen: MemberSeen) -> str:
    if seen.patroni is not None:
        return seen.patroni.state
    if seen.postgres is not None:
        return "running without Patroni"
    return "not answering"


def _lag(seen: MemberSeen) -> int:
    if _role(seen) is StoreRole.LEADER:
        return 0
    lag = seen.listed.lag if seen.listed is not None else None
    return -1 if lag is None else lag


def _problem(seen: MemberSeen, newest: int) -> str | None:
    primary = seen.postgres is not None and not seen.postgres.in_recovery
    if primary and seen.postgres is not None and seen.postgres.timeline < newest:
        return (
            f"a stale primary: it writes on timeline {seen.postgres.timeline} while another one is on {newest}; "
            f"stop PostgreSQL on {seen.host}"
        )
    if seen.patroni is None:
        if primary:
            return f"Patroni does not answer while its PostgreSQL is primary: restart Patroni on {seen.host}"
        return f"Patroni does not answer: look at it on {seen.host}"
    if seen.patroni.state == "start failed":
        return f"PostgreSQL does not start: its log on {seen.host} says why"
    if not seen.patroni.alive:
        return f"Patroni answers but its loop stands still: restart it on {seen.host}"
    if seen.patroni.state not in _RUNS:
        return f"it is {seen.patroni.state}"
    if seen.postgres is None:
        return f"PostgreSQL does not answer from here: look at the network to {seen.host}"
    if seen.watchdog is False:
        return f"no watchdog on {seen.host}: a frozen Patroni could leave a second primary writing"
    lag = _lag(seen)
    return f"{lag:,} bytes behind" if lag > LAG_BYTES else None


def _whole(seen: tuple[MemberSeen, ...], members: tuple[StoreMember, ...]) -> str | None:
    primaries = [one.name for one in members if one.role is StoreRole.LEADER]
    writing = [one.name for one in seen if one.postgres is not None and not one.postgres.in_recovery]
    if len(writing) > 1:
        return f"two primaries: {' and '.join(sorted(writing))}"
    if not primaries:
        return "no primary: nothing can be written"
    if len(members) > 1 and not any(one.role is StoreRole.SYNC_STANDBY for one in members):
        return "no synchronous standby: what is written now could be lost with the primary"
    return None
