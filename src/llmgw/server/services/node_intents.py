"""What operators want of nodes: cordon, drain, remove, and the word that silent ones may be replaced."""

import asyncio

from llmgw.core.drain import preview
from llmgw.core.mass_protection import released
from llmgw.core.node_intent import with_intent
from llmgw.core.planner import plan
from llmgw.ports import AppendEvent, Clock, DeleteEnrolment, DeleteNode, FleetRows, PutNode, Write
from llmgw.schema.admin.drain import Drain
from llmgw.schema.admin.node import NodeRow
from llmgw.schema.errors import Conflict
from llmgw.schema.event import Event, Severity
from llmgw.schema.identity import Identity, Part
from llmgw.schema.node import Intent, Replacement
from llmgw.server.fleet import Fleet
from llmgw.server.services.nodes import find, one_node

_SAID = {
    Intent.NONE: "takes replicas again",
    Intent.CORDONED: "takes no new replicas",
    Intent.DRAINING: "drains: its replicas are moved off",
}
_KINDS = {Intent.NONE: "node.uncordoned", Intent.CORDONED: "node.cordoned", Intent.DRAINING: "node.draining"}


async def cordon(fleet: Fleet, clock: Clock, node_id: str, *, reason: str | None, actor: str) -> NodeRow:
    """Place nothing new on a node; what runs there stays. Ends a drain. Raises `NotFound`."""
    return await _want(fleet, clock, node_id, Intent.CORDONED, reason=reason, actor=actor)


async def uncordon(fleet: Fleet, clock: Clock, node_id: str, *, actor: str) -> NodeRow:
    """End a cordon or a drain. Raises `NotFound`."""
    return await _want(fleet, clock, node_id, Intent.NONE, reason=None, actor=actor)


async def drain(fleet: Fleet, clock: Clock, node_id: str, *, reason: str | None, dry_run: bool, actor: str) -> Drain:
    """Move all replicas off a node: each is replaced first where that fits. `dry_run` only says what would happen.

    Raises `NotFound`.
    """
    find(fleet.rows, node_id)
    # In a thread: on a large fleet the planner takes longer than the loop may be held up.
    seen = await asyncio.to_thread(preview, fleet.snapshot(), node_id, plan)
    if not dry_run:
        await _want(fleet, clock, node_id, Intent.DRAINING, reason=reason, actor=actor)
    return Drain(node=one_node(fleet, clock, node_id), dry_run=dry_run, preview=seen)


async def remove(fleet: Fleet, clock: Clock, node_id: str, *, actor: str) -> None:
    """Forget a node; what it held is free, and its replicas are replaced. Raises `NotFound`.

    With mutual TLS its certificate is no longer taken, which ends its stream at once. Without, raises `Conflict` while
    its agent is connected: it would join again at once.
    """
    identity = Identity(part=Part.NODE, name=node_id)

    def decide(rows: FleetRows) -> tuple[Write, ...]:
        find(rows, node_id)
        enrolment = fleet.enrolment(identity)
        live = fleet.node_live(node_id)
        if enrolment is not None:
            ended = DeleteEnrolment(id=enrolment.id)
            return DeleteNode(id=node_id), ended, _event(clock, "node.removed", node_id, "removed", actor)
        if live is not None and live.connected:
            raise Conflict(
                f"node {node_id} cannot be removed: its agent is connected and would join again",
                hint=f"drain it (llmgw ctl node drain {node_id}), stop its agent, then remove it",
            )
        return DeleteNode(id=node_id), _event(clock, "node.removed", node_id, "removed", actor)

    await fleet.change(decide)


async def replace_silent(fleet: Fleet, clock: Clock, *, actor: str) -> tuple[str, ...]:
    """Let nodes that fell silent together be replaced after all; gives their ids."""
    found: list[str] = []

    def decide(rows: FleetRows) -> tuple[Write, ...]:
        held = [node for node in rows.nodes if node.replacement is Replacement.HELD]
        found[:] = [node.id for node in held]
        writes: list[Write] = [PutNode(node=released(node, clock.now())) for node in held]
        told = "may be replaced although it fell silent with many others"
        writes.extend(_event(clock, "node.released", node.id, told, actor) for node in held)
        return tuple(writes)

    await fleet.change(decide)
    return tuple(found)


async def _want(fleet: Fleet, clock: Clock, node_id: str, intent: Intent, *, reason: str | None, actor: str) -> NodeRow:
    def decide(rows: FleetRows) -> tuple[Write, ...]:
        before = find(rows, node_id)
        after = with_intent(before, intent, reason)
        if before.intent is intent and reason is None:
            return ()  # said again without a reason: the old one stays
        if after == before:
            return ()
        told = _SAID[intent] + (f" ({reason})" if reason else "")
        return PutNode(node=after), _event(clock, _KINDS[intent], node_id, told, actor)

    await fleet.change(decide)
    return one_node(fleet, clock, node_id)


def _event(clock: Clock, kind: str, node_id: str, told: str, actor: str) -> AppendEvent:
    event = Event(
        at=clock.now(),
        kind=kind,
        severity=Severity.INFO,
        message=f"node {node_id}: {told}",
        node=node_id,
        actor=actor,
    )
    return AppendEvent(event=event)
