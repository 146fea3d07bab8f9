"""`/tokens`: operators' tokens for this API and the console."""

from llmgw.schema.admin.token import CreatedToken, CreateToken, TokenList, TokenRow
from llmgw.schema.key import AdminRole
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import admin_tokens

_TAG = "tokens"


async def _list(call: Call[Nothing, Nothing]) -> TokenList:
    return TokenList(tokens=admin_tokens.all_tokens(call.context.fleet))


async def _create(call: Call[CreateToken, Nothing]) -> CreatedToken:
    context = call.context
    return await admin_tokens.create(context.fleet, context.clock, call.body, actor=call.actor.id)


async def _revoke(call: Call[Nothing, Nothing]) -> TokenRow:
    context = call.context
    return await admin_tokens.revoke(context.fleet, context.clock, call.path["id"], actor=call.actor.id)


ROUTES = (
    TypedRoute(
        method="GET",
        path="/tokens",
        role=AdminRole.ADMIN,
        summary="List operators' tokens, revoked ones included",
        handler=_list,
        answer=TokenList,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/tokens",
        role=AdminRole.ADMIN,
        summary="Make an operator's token; its secret is shown this once",
        handler=_create,
        body=CreateToken,
        answer=CreatedToken,
        status=201,
        tag=_TAG,
    ),
    TypedRoute(
        method="DELETE",
        path="/tokens/{id}",
        role=AdminRole.ADMIN,
        summary="Revoke an operator's token for good",
        handler=_revoke,
        answer=TokenRow,
        tag=_TAG,
    ),
)
