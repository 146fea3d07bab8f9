"""`/nodes`."""

from llmgw.schema.admin.agent_link import AgentLink
from llmgw.schema.admin.drain import Drain, ReplacedSilent
from llmgw.schema.admin.model import Removed
from llmgw.schema.admin.node import NodeList, NodeRow
from llmgw.schema.history import History
from llmgw.schema.key import AdminRole
from llmgw.schema.value import Value
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import agent_link, node_intents, nodes

_TAG = "nodes"


class IntentQuery(Value, frozen=True, kw_only=True):
    """Why."""

    reason: str | None = None
    """Shown beside the node's state."""


class DrainQuery(Value, frozen=True, kw_only=True):
    """How, and why."""

    dry_run: bool = False
    """Only say what would move, wait and break."""
    reason: str | None = None


async def _list(call: Call[Nothing, Nothing]) -> NodeList:
    return NodeList(nodes=nodes.all_nodes(call.context.fleet, call.context.clock))


async def _get(call: Call[Nothing, Nothing]) -> NodeRow:
    return nodes.one_node(call.context.fleet, call.context.clock, call.path["id"])


async def _history(call: Call[Nothing, Nothing]) -> History:
    return await call.context.history.hour(call.path["id"])


async def _cordon(call: Call[Nothing, IntentQuery]) -> NodeRow:
    fleet, clock = call.context.fleet, call.context.clock
    return await node_intents.cordon(fleet, clock, call.path["id"], reason=call.query.reason, actor=call.actor.id)


async def _uncordon(call: Call[Nothing, Nothing]) -> NodeRow:
    return await node_intents.uncordon(call.context.fleet, call.context.clock, call.path["id"], actor=call.actor.id)


async def _drain(call: Call[Nothing, DrainQuery]) -> Drain:
    return await node_intents.drain(
        call.context.fleet,
        call.context.clock,
        call.path["id"],
        reason=call.query.reason,
        dry_run=call.query.dry_run,
        actor=call.actor.id,
    )


async def _remove(call: Call[Nothing, Nothing]) -> Removed:
    await node_intents.remove(call.context.fleet, call.context.clock, call.path["id"], actor=call.actor.id)
    return Removed(removed=call.path["id"])


async def _replace_silent(call: Call[Nothing, Nothing]) -> ReplacedSilent:
    found = await node_intents.replace_silent(call.context.fleet, call.context.clock, actor=call.actor.id)
    return ReplacedSilent(nodes=found)


async def _agent_link(call: Call[Nothing, Nothing]) -> AgentLink:
    return agent_link.agent_link(call.context.config)


ROUTES = (
    TypedRoute(
        method="GET",
        path="/nodes",
        role=AdminRole.VIEWER,
        summary="List nodes with their state, load and room",
        handler=_list,
        answer=NodeList,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/nodes/{id}",
        role=AdminRole.VIEWER,
        summary="Show one node",
        handler=_get,
        answer=NodeRow,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/nodes/{id}/history",
        role=AdminRole.VIEWER,
        summary="Give an hour of a node's load, its models' cores and memory, and their queues",
        handler=_history,
        answer=History,
        tag=_TAG,
    ),
    TypedRoute(
        method="DELETE",
        path="/nodes/{id}",
        role=AdminRole.OPERATOR,
        summary="Remove a node whose agent is gone; what it held is free",
        handler=_remove,
        answer=Removed,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/nodes/{id}/cordon",
        role=AdminRole.OPERATOR,
        summary="Place nothing new on a node",
        handler=_cordon,
        query=IntentQuery,
        answer=NodeRow,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/nodes/{id}/uncordon",
        role=AdminRole.OPERATOR,
        summary="End a cordon or a drain",
        handler=_uncordon,
        answer=NodeRow,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/nodes/{id}/drain",
        role=AdminRole.OPERATOR,
        summary="Move all replicas off a node, each replaced first where that fits",
        handler=_drain,
        query=DrainQuery,
        answer=Drain,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/nodes/replace-silent",
        role=AdminRole.OPERATOR,
        summary="Let nodes that fell silent together be replaced after all",
        handler=_replace_silent,
        answer=ReplacedSilent,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/agent-link",
        role=AdminRole.ADMIN,
        summary="Show where agents connect and the token they present",
        handler=_agent_link,
        answer=AgentLink,
        tag=_TAG,
    ),
)
