"""`/join-tokens`, and the end of a gateway's trust."""

from llmgw.schema.admin.join_token import CreatedJoinToken, CreateJoinToken
from llmgw.schema.admin.model import Removed
from llmgw.schema.key import AdminRole
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import join_tokens

_TAG = "trust"


async def _create(call: Call[CreateJoinToken, Nothing]) -> CreatedJoinToken:
    context = call.context
    return await join_tokens.create(context.fleet, context.clock, call.body, actor=call.actor.id)


async def _remove_gateway(call: Call[Nothing, Nothing]) -> Removed:
    context = call.context
    await join_tokens.remove_gateway(context.fleet, context.clock, call.path["name"], actor=call.actor.id)
    return Removed(removed=call.path["name"])


ROUTES = (
    TypedRoute(
        method="POST",
        path="/join-tokens",
        role=AdminRole.ADMIN,
        summary="Make a token that lets one machine join, once, within 15 minutes",
        handler=_create,
        body=CreateJoinToken,
        answer=CreatedJoinToken,
        status=201,
        tag=_TAG,
    ),
    TypedRoute(
        method="DELETE",
        path="/gateways/{name}",
        role=AdminRole.ADMIN,
        summary="Take the trust from a gateway that joined; its stream is closed",
        handler=_remove_gateway,
        answer=Removed,
        tag=_TAG,
    ),
)
