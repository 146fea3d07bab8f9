"""`/nodes`."""

from llmgw.schema.admin.agent_link import AgentLink
from llmgw.schema.admin.node import NodeList, NodeRow
from llmgw.schema.key import AdminRole
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import agent_link, nodes

_TAG = "nodes"


async def _list(call: Call[Nothing, Nothing]) -> NodeList:
    return NodeList(nodes=nodes.all_nodes(call.context.fleet, call.context.clock))


async def _get(call: Call[Nothing, Nothing]) -> NodeRow:
    return nodes.one_node(call.context.fleet, call.context.clock, call.path["id"])


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
        path="/agent-link",
        role=AdminRole.ADMIN,
        summary="Show where agents connect and the token they present",
        handler=_agent_link,
        answer=AgentLink,
        tag=_TAG,
    ),
)
