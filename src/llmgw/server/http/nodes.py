"""`/nodes`."""

from llmgw.schema.admin.node import NodeList, NodeRow
from llmgw.schema.key import AdminRole
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import nodes

_TAG = "nodes"


async def _list(call: Call[Nothing, Nothing]) -> NodeList:
    return NodeList(nodes=nodes.all_nodes(call.context.fleet, call.context.clock))


async def _get(call: Call[Nothing, Nothing]) -> NodeRow:
    return nodes.one_node(call.context.fleet, call.context.clock, call.path["id"])


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
)
