"""`/aliases`: other names of models. Names may hold slashes, also percent-encoded."""

from llmgw.schema.admin.alias import AliasList, PutAlias
from llmgw.schema.admin.model import Removed
from llmgw.schema.alias import Alias
from llmgw.schema.key import AdminRole
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import aliases

_TAG = "aliases"


async def _list(call: Call[Nothing, Nothing]) -> AliasList:
    return aliases.all_aliases(call.context.fleet)


async def _get(call: Call[Nothing, Nothing]) -> Alias:
    return aliases.one_alias(call.context.fleet, call.path["name"])


async def _put(call: Call[PutAlias, Nothing]) -> Alias:
    context = call.context
    return await aliases.put(context.fleet, context.clock, call.path["name"], call.body, actor=call.actor.id)


async def _remove(call: Call[Nothing, Nothing]) -> Removed:
    context = call.context
    await aliases.remove(context.fleet, context.clock, call.path["name"], actor=call.actor.id)
    return Removed(removed=call.path["name"])


ROUTES = (
    TypedRoute(
        method="GET",
        path="/aliases",
        role=AdminRole.VIEWER,
        summary="List aliases",
        handler=_list,
        answer=AliasList,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/aliases/{name:path}",
        role=AdminRole.VIEWER,
        summary="Show one alias",
        handler=_get,
        answer=Alias,
        tag=_TAG,
    ),
    TypedRoute(
        method="PUT",
        path="/aliases/{name:path}",
        role=AdminRole.OPERATOR,
        summary="Make or change an alias: which models answer under it, by weight, and which in their place",
        handler=_put,
        body=PutAlias,
        answer=Alias,
        tag=_TAG,
    ),
    TypedRoute(
        method="DELETE",
        path="/aliases/{name:path}",
        role=AdminRole.OPERATOR,
        summary="Remove an alias; the models behind it stay",
        handler=_remove,
        answer=Removed,
        tag=_TAG,
    ),
)
