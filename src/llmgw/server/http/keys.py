"""`/keys`: client keys for `/v1`."""

from llmgw.schema.admin.key import CreatedKey, CreateKey, KeyList, KeyRow
from llmgw.schema.key import AdminRole
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import keys

_TAG = "keys"


async def _list(call: Call[Nothing, Nothing]) -> KeyList:
    return KeyList(keys=keys.all_keys(call.context.fleet))


async def _create(call: Call[CreateKey, Nothing]) -> CreatedKey:
    context = call.context
    return await keys.create(context.fleet, context.clock, call.body, actor=call.actor.id)


async def _revoke(call: Call[Nothing, Nothing]) -> KeyRow:
    context = call.context
    return await keys.revoke(context.fleet, context.clock, call.path["id"], actor=call.actor.id)


ROUTES = (
    TypedRoute(
        method="GET",
        path="/keys",
        role=AdminRole.VIEWER,
        summary="List client keys, revoked ones included",
        handler=_list,
        answer=KeyList,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/keys",
        role=AdminRole.ADMIN,
        summary="Make a client key; its secret is shown this once",
        handler=_create,
        body=CreateKey,
        answer=CreatedKey,
        status=201,
        tag=_TAG,
    ),
    TypedRoute(
        method="DELETE",
        path="/keys/{id}",
        role=AdminRole.ADMIN,
        summary="Revoke a client key for good",
        handler=_revoke,
        answer=KeyRow,
        tag=_TAG,
    ),
)
