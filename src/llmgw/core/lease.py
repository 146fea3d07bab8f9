"""The lease as a pure state machine: observations in, actions out.

Safety rests on three rules and on no wall clock:

- A leader is valid from the moment it *sent* a renewal that succeeded, for the TTL less a margin.
- A standby takes over only after a whole TTL of silence, counted from the moment an *answer* showed it the last
  change, in a store that answered all the time; or at once when the row is released or the old holder is proven dead.
- Each change of the row is a compare-and-set. So a late renewal is allowed: it succeeds only if nobody acted since.
"""

from datetime import datetime

from msgspec.structs import replace

from llmgw.schema.lease import Fence, LeaseRow, LeaseStatus, Standing
from llmgw.schema.value import Value

FIRST_EPOCH = 1
LAPSED_S = 60.0
"""How long agents and address stay while the store is away and nobody took the lease (spec, section 8)."""


class Numbers(Value, frozen=True, kw_only=True):
    """Seconds. The defaults are those of the design: a stop costs 1 to 2 s, a crash about 7 s."""

    ttl_s: float = 6.0
    """Silence after which a standby takes over."""
    renew_s: float = 1.5
    margin_s: float = 1.0
    """How much earlier than the TTL a leader stops trusting itself; allows for clocks of unequal rate."""
    poll_s: float = 0.5
    """Period of a standby's reads, and of retries after a failed call."""
    jitter_s: float = 0.25


class Candidate(Value, frozen=True, kw_only=True):
    """This process, as it appears in the row when it leads."""

    holder: str
    name: str
    address: str


# Actions ------------------------------------------------------------------------------------------


class Wait(Value, frozen=True, kw_only=True):
    """Do nothing until `until`, plus a random part of `spread_s`; then observe `Woke`."""

    until: float
    spread_s: float = 0.0


class Read(Value, frozen=True, kw_only=True):
    """Call `LeaseStore.read`."""


class Take(Value, frozen=True, kw_only=True):
    """Call `LeaseStore.take`."""

    seen: LeaseRow | None
    new: LeaseRow


class Renew(Value, frozen=True, kw_only=True):
    """Call `LeaseStore.renew`."""

    row: LeaseRow


class Release(Value, frozen=True, kw_only=True):
    """Call `LeaseStore.release`."""

    holder: str
    epoch: int


class Stop(Value, frozen=True, kw_only=True):
    """The end: nothing more to do."""


Action = Wait | Read | Take | Renew | Release | Stop

# Observations -------------------------------------------------------------------------------------


class Woke(Value, frozen=True, kw_only=True):
    """A wait is over, or was cut short."""

    at: float
    wall: datetime


class RowRead(Value, frozen=True, kw_only=True):
    """The store answered a read."""

    row: LeaseRow | None
    at: float
    wall: datetime
    old_holder_dead: bool = False
    """A lock held by this process proves that no earlier holder lives."""


class Written(Value, frozen=True, kw_only=True):
    """The store answered a take, a renewal or a release; `ok` is False when the row was not as expected."""

    ok: bool
    sent_at: float
    at: float
    wall: datetime


class CallFailed(Value, frozen=True, kw_only=True):
    """The store did not answer; whether the call took effect, or will, is unknown."""

    sent_at: float
    at: float
    wall: datetime


Observation = Woke | RowRead | Written | CallFailed


class LeaseState(Value, frozen=True, kw_only=True):
    """All that one process knows of the lease."""

    row: LeaseRow | None = None
    """The row as last read or written."""
    certain: bool = False
    """The row may be acted on: it was just read, or is ours and no call failed since."""
    silent_since: float | None = None
    """When an answer first showed the row as it is, the store answering ever since; `None`: not known."""
    old_holder_dead: bool = False
    renewed_at: float | None = None
    """When the last renewal that succeeded was sent; `None`: this process does not hold the lease."""
    beat: int = 0
    """Highest beat ever tried, so that no two attempts share one."""
    floor: int = FIRST_EPOCH
    """The lowest epoch this process may lead with: above each that another holder was seen with, even if a database
    that lost writes shows a lower one again."""
    due: float = 0.0
    """When the next call is due."""
    term: int = 0
    """How often this process has begun to lead: between two terms another may have led."""
    yielding: bool = False
    """The lease is let go of while this process lives on: not valid from now on, the release not answered yet."""
    abstain_until: float = 0.0
    """Until then it is not taken, whatever the row says."""
    stopping: bool = False
    doing: Action = Wait(until=0.0)
    """What is to be done now; the next observation tells of it."""


def step(state: LeaseState, seen: Observation, *, me: Candidate, numbers: Numbers) -> LeaseState:
    """Take in what came of `state.doing`; the new state's `doing` is what to do next."""
    learnt = _learn(state, seen, me, numbers)
    action = _decide(learnt, seen, me, numbers)
    beat = (
        action.new.beat if isinstance(action, Take) else action.row.beat if isinstance(action, Renew) else learnt.beat
    )
    return replace(learnt, doing=action, beat=beat)


def epoch_at_least(state: LeaseState, at_least: int) -> LeaseState:
    """Demand a higher epoch: an agent obeyed one that this store does not know of."""
    return replace(state, floor=max(state.floor, at_least), due=0.0)


def step_down(state: LeaseState, until: float) -> LeaseState:
    """Let go: no longer valid from now on; the next step releases the row, and it is not taken again before `until`."""
    return replace(state, yielding=state.renewed_at is not None, abstain_until=until, due=0.0)


def stop(state: LeaseState) -> LeaseState:
    """End: no longer valid from now on; the next step releases the row if it is ours."""
    return replace(state, stopping=True)


def is_valid(state: LeaseState, numbers: Numbers, now: float) -> bool:
    """True while this process may act as the leader. Compare with the clock at each use; never keep the answer."""
    valid_until = _valid_until(state, numbers)
    return valid_until is not None and not state.stopping and not state.yielding and now < valid_until


def fence(state: LeaseState, numbers: Numbers, now: float) -> Fence | None:
    """Give what writes and orders must carry; `None` unless valid now."""
    if state.row is None or not is_valid(state, numbers, now):
        return None
    return Fence(epoch=state.row.epoch, holder=state.row.holder)


def status(state: LeaseState, numbers: Numbers, now: float) -> LeaseStatus:
    """Give the lease as people and callers see it."""
    standing = _standing(state, numbers, now)
    let_go = state.yielding or standing is Standing.STOPPED
    held = state.row if state.row is not None and not state.row.released and not let_go else None
    leads = None if standing is Standing.LAPSED else held
    valid_until = _valid_until(state, numbers)
    return LeaseStatus(
        standing=standing,
        epoch=state.row.epoch if state.row else None,
        holder=held.holder if held else None,
        leader_name=leads.name if leads else None,
        leader_address=leads.address if leads else None,
        renew_age_s=None if state.renewed_at is None else now - state.renewed_at,
        term=state.term,
        lapsed_s=now - valid_until if standing is Standing.LAPSED and valid_until is not None else None,
        abstains=now < state.abstain_until,
    )


def holds_on(status: LeaseStatus) -> bool:
    """True for who leads, or lapsed a short while ago: it keeps agents and address, and neither writes nor orders.

    Lapsed means that the store is away and nobody is known to have taken the lease: letting go would help nobody.
    """
    lapsed = status.standing is Standing.LAPSED and status.lapsed_s is not None and status.lapsed_s < LAPSED_S
    return status.standing is Standing.LEADING or lapsed


def _valid_until(state: LeaseState, numbers: Numbers) -> float | None:
    return None if state.renewed_at is None else state.renewed_at + numbers.ttl_s - numbers.margin_s


def _standing(state: LeaseState, numbers: Numbers, now: float) -> Standing:
    if state.stopping:
        return Standing.STOPPED
    if state.renewed_at is None or state.yielding:
        return Standing.STANDING_BY
    return Standing.LEADING if is_valid(state, numbers, now) else Standing.LAPSED


# What an observation teaches ----------------------------------------------------------------------


def _learn(state: LeaseState, seen: Observation, me: Candidate, numbers: Numbers) -> LeaseState:
    match seen:
        case Woke():
            return replace(state, certain=state.certain and state.renewed_at is not None)
        case RowRead():
            return _learn_row(state, seen, me, numbers)
        case Written():
            return _learn_written(state, seen, numbers)
        case CallFailed():
            # Silence counts anew once the store answers again: that gives a leader's late renewal the first go.
            return replace(state, certain=False, silent_since=None, due=max(seen.at, seen.sent_at + numbers.poll_s))


def _learn_row(state: LeaseState, seen: RowRead, me: Candidate, numbers: Numbers) -> LeaseState:
    row = seen.row
    unchanged = _mark(row) == _mark(state.row)
    silent_since = state.silent_since if unchanged and state.silent_since is not None else seen.at
    still_ours = state.renewed_at is not None and row is not None and _is_ours(row, me)
    return replace(
        state,
        row=row,
        floor=state.floor if row is None or row.holder == me.holder else max(state.floor, row.epoch + 1),
        certain=True,
        silent_since=silent_since,
        old_holder_dead=seen.old_holder_dead,
        renewed_at=state.renewed_at if still_ours else None,
        due=seen.at if still_ours else min(seen.at + numbers.poll_s, silent_since + numbers.ttl_s),
    )


def _learn_written(state: LeaseState, seen: Written, numbers: Numbers) -> LeaseState:
    match state.doing:
        case Take(new=row) | Renew(row=row) if seen.ok:
            due = seen.at if row.epoch < state.floor else seen.sent_at + numbers.renew_s
            term = state.term + (state.renewed_at is None)
            return replace(state, row=row, certain=True, silent_since=None, renewed_at=seen.sent_at, due=due, term=term)
        case Renew() if state.renewed_at is not None:
            return replace(state, certain=False, silent_since=None, renewed_at=None, due=seen.at)
        case Release():
            # Ours no longer, whatever the answer: else this process would go on naming itself as the leader.
            let_go = None if state.row is None else replace(state.row, released=True)
            due = seen.at + numbers.poll_s
            return replace(
                state, row=let_go, certain=False, silent_since=None, renewed_at=None, yielding=False, due=due
            )
        case _:
            due = seen.at if state.renewed_at is not None else seen.at + numbers.poll_s
            return replace(state, certain=False, silent_since=None, due=due)


def _is_ours(row: LeaseRow, me: Candidate) -> bool:
    return row.holder == me.holder and not row.released


def _mark(row: LeaseRow | None) -> tuple[str, int, int, bool] | None:
    return None if row is None else (row.holder, row.epoch, row.beat, row.released)


# What to do next ----------------------------------------------------------------------------------


def _decide(state: LeaseState, seen: Observation, me: Candidate, numbers: Numbers) -> Action:
    if state.stopping:
        return _finish(state, seen)
    if state.yielding and state.row is not None:
        return _let_go(state, state.row, seen)
    if state.row is not None and state.renewed_at is not None:
        return _lead(state, state.row, seen, me, numbers)
    return _stand_by(state, seen, me, numbers)


def _finish(state: LeaseState, seen: Observation) -> Action:
    answered = isinstance(state.doing, Release) and not isinstance(seen, Woke)
    if answered or state.row is None or state.renewed_at is None:
        return Stop()
    return Release(holder=state.row.holder, epoch=state.row.epoch)


def _let_go(state: LeaseState, row: LeaseRow, seen: Observation) -> Action:
    if seen.at < state.due:
        return Wait(until=state.due)
    return Release(holder=row.holder, epoch=row.epoch)


def _lead(state: LeaseState, row: LeaseRow, seen: Observation, me: Candidate, numbers: Numbers) -> Action:
    if seen.at < state.due:
        valid_until = _valid_until(state, numbers)
        # Awake at the lapse as well, so that those who must let go then are told.
        lapses = valid_until is not None and seen.at < valid_until < state.due
        return Wait(until=valid_until if lapses and valid_until is not None else state.due)
    if row.epoch >= state.floor:
        return Renew(row=_ours(state, row.epoch, seen.wall, me))
    if not state.certain:
        return Read()
    return Take(seen=row, new=_ours(state, state.floor, seen.wall, me))


def _stand_by(state: LeaseState, seen: Observation, me: Candidate, numbers: Numbers) -> Action:
    if not state.certain:
        return Read() if seen.at >= state.due else Wait(until=state.due, spread_s=numbers.jitter_s)
    if seen.at < state.abstain_until:
        return Wait(until=max(state.due, seen.at + numbers.poll_s))
    row = state.row
    ours = row is not None and _is_ours(row, me)
    if ours and row is not None and row.epoch >= state.floor:
        return Renew(row=_ours(state, row.epoch, seen.wall, me))
    if ours or _may_take(state, row, seen.at, numbers):
        epoch = max(state.floor, FIRST_EPOCH if row is None else row.epoch + 1)
        return Take(seen=row, new=_ours(state, epoch, seen.wall, me))
    return Wait(until=state.due, spread_s=numbers.jitter_s)


def _may_take(state: LeaseState, row: LeaseRow | None, now: float, numbers: Numbers) -> bool:
    if row is None or row.released or state.old_holder_dead:
        return True
    return state.silent_since is not None and now - state.silent_since >= numbers.ttl_s


def _ours(state: LeaseState, epoch: int, wall: datetime, me: Candidate) -> LeaseRow:
    return LeaseRow(
        holder=me.holder,
        epoch=epoch,
        beat=max(state.beat, state.row.beat if state.row else 0) + 1,
        released=False,
        name=me.name,
        address=me.address,
        renewed_at=wall,
    )
