"""Life of a node: the shown state from two stored facts, intent (the operator's) and reachability (ours).

    CONNECTED ── silent for 15 s ─▶ UNREACHABLE ── silent for 5 min ─▶ LOST
    any ── a sign of its agent ─▶ CONNECTED

Only `LOST` lets its replicas be replaced, so it is the one that is guarded: not in the first minute of a leader, not
while its engines answer, not while a crowd is away, not more than one node in ten seconds, and never in one step from
CONNECTED. A model may wait shorter or longer than the rest (`core.patience`): then the node is lost with the first
and given up for the others in further steps, each guarded alike.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from llmgw.core.mass_protection import groups_of, hold, marked, protected
from llmgw.core.patience import spared
from llmgw.schema.node import Intent, Node, NodeState, Reachability, Replacement
from llmgw.schema.value import Value

PENALTY_S = 30.0
"""How long a node that was silent takes nothing new; doubles with each silence within the hour."""
PENALTY_MAX_S = 30 * 60.0
REMEMBERED = timedelta(hours=1)
KEPT_SILENCES = 10
FLAPPING = 3
"""So many silences within `FLAPPING_IN` make an alarm."""
FLAPPING_IN = timedelta(minutes=10)


class Limits(Value, frozen=True, kw_only=True):
    """When silence means something, in seconds."""

    unreachable_after_s: float
    lost_after_s: float
    grace_s: float = 60.0
    """After a change of leader no node may be declared lost for so long (Nomad's lesson, facts on availability)."""
    lose_every_s: float = 10.0
    """At most one node is declared lost in so long: replacing is work that the rest of the fleet has to bear."""


class Evidence(Value, frozen=True, kw_only=True):
    """What is known of one node's agent and engines now."""

    silence_s: float
    """Seconds of hearing time without a sign of its agent; while this process was deaf they do not grow."""
    heard: bool = True
    """False for a node this leader has not heard at all: its silence counts from the start of the leadership, which
    proves nothing good, so the stored fact can only get worse."""
    serves: bool = False
    """An engine of it answered a request lately, as gateways say."""
    waits: Mapping[str, float] = {}
    """Models with replicas on it, and the seconds of silence each of them bears."""


def shown_state(node: Node) -> NodeState:
    """Give the state people see: the first that applies of lost, unreachable, draining, cordoned, ready.

    Reachability hides the intent and never changes it, so a node that comes back is what its operator wanted.
    """
    if node.reachability is Reachability.LOST:
        return NodeState.LOST
    if node.reachability is Reachability.UNREACHABLE:
        return NodeState.UNREACHABLE
    if node.intent is Intent.DRAINING:
        return NodeState.DRAINING
    if node.intent is Intent.CORDONED:
        return NodeState.CORDONED
    return NodeState.READY


def judge(
    nodes: tuple[Node, ...], evidence: Mapping[str, Evidence], *, limits: Limits, leading_s: float, now: datetime
) -> tuple[Node, ...]:
    """Give all nodes as they are to be stored, in the same order; `evidence` has every one of them.

    `leading_s` is how long this leader leads, in hearing time. Judged again at once, nothing changes but what time
    itself allows.
    """
    looked = tuple(_looked(node, evidence[node.id], limits, now) for node in nodes)
    held = hold(looked, now)
    if leading_s < limits.grace_s:
        return held
    return _with_losses(nodes, held, evidence, limits, now)


def settles_at(node: Node) -> datetime | None:
    """Give the end of the time in which a node that was silent takes nothing new; `None` when it was not."""
    since = node.reachability_since
    if node.reachability is not Reachability.CONNECTED or since is None or not node.silences:
        return None
    recent = sum(since - at <= REMEMBERED for at in node.silences)
    if recent == 0:
        return None
    return since + timedelta(seconds=min(PENALTY_S * 2.0 ** (recent - 1), PENALTY_MAX_S))


def is_settling(node: Node, now: datetime) -> bool:
    """True while a node that was silent takes nothing new."""
    end, since = settles_at(node), node.reachability_since
    return end is not None and since is not None and since <= now < end


def flaps(node: Node, now: datetime) -> int:
    """Count the silences of the last ten minutes."""
    return sum(now - at <= FLAPPING_IN for at in node.silences)


def _looked(node: Node, seen: Evidence, limits: Limits, now: datetime) -> Node:
    """Give a node as connected or unreachable. Only a sign of life ends `lost`."""
    if seen.silence_s < limits.unreachable_after_s:
        return _back(node, now) if seen.heard and node.reachability is not Reachability.CONNECTED else node
    if node.reachability is not Reachability.CONNECTED:
        return node
    kept = tuple(at for at in node.silences if now - at <= REMEMBERED)
    return replace(
        node,
        reachability=Reachability.UNREACHABLE,
        reachability_since=now,
        silences=(*kept, now)[-KEPT_SILENCES:],
    )


def _back(node: Node, now: datetime) -> Node:
    back = replace(node, reachability=Reachability.CONNECTED, reachability_since=now, spared=())
    return marked(back, Replacement.ALLOWED, now)


def _with_losses(
    before: tuple[Node, ...],
    nodes: tuple[Node, ...],
    evidence: Mapping[str, Evidence],
    limits: Limits,
    now: datetime,
) -> tuple[Node, ...]:
    was_away = {node.id for node in before if node.reachability is not Reachability.CONNECTED}
    safe = {crowd.group for crowd in protected(nodes)}
    due = [
        node
        for node in nodes
        if node.id in was_away
        and _is_due(node, evidence[node.id], limits)
        and _may_be_replaced(node, limits, now)
        and (node.replacement is Replacement.RELEASED or safe.isdisjoint(groups_of(node)))
    ]
    serving = {node.id for node in due if evidence[node.id].serves}
    lost = _one([node for node in due if node.id not in serving], nodes, evidence, limits, now)
    return tuple(_decided(node, serving, lost, evidence[node.id], now) for node in nodes)


def _is_due(node: Node, seen: Evidence, limits: Limits) -> bool:
    """True when a node has been silent for longer than some model, or the fleet, waits for it."""
    if node.reachability is Reachability.UNREACHABLE:
        return seen.silence_s >= min([limits.lost_after_s, *seen.waits.values()])
    if node.reachability is Reachability.LOST and not seen.serves:
        return any(name in node.spared and seen.silence_s >= wait for name, wait in seen.waits.items())
    return False


def _may_be_replaced(node: Node, limits: Limits, now: datetime) -> bool:
    """A node let go from a crowd gets a while of its own: others of it are just coming back."""
    if node.replacement is Replacement.HELD:
        return False
    since = node.replacement_since
    if node.replacement is not Replacement.ALLOWED or since is None:
        return True
    return not timedelta(0) <= now - since < timedelta(seconds=limits.grace_s)


def _one(
    due: list[Node], nodes: tuple[Node, ...], evidence: Mapping[str, Evidence], limits: Limits, now: datetime
) -> str | None:
    """Give the one that may be declared lost now: the longest silent."""
    pause = timedelta(seconds=limits.lose_every_s)
    if not due or any(node.lost_at is not None and timedelta(0) <= now - node.lost_at < pause for node in nodes):
        return None
    return min(due, key=lambda node: (-evidence[node.id].silence_s, node.id)).id


def _decided(node: Node, serving: set[str], lost: str | None, seen: Evidence, now: datetime) -> Node:
    if node.id == lost:
        since = node.reachability_since if node.reachability is Reachability.LOST else now
        node = replace(
            node,
            reachability=Reachability.LOST,
            reachability_since=since,
            lost_at=now,
            spared=spared(node, seen.waits, seen.silence_s),
        )
        return marked(node, Replacement.ALLOWED, now)
    if node.id in serving:
        return marked(node, Replacement.SERVING, now)
    if node.replacement is Replacement.SERVING and not seen.serves:
        return replace(node, replacement=Replacement.ALLOWED, replacement_since=None)
    return node
