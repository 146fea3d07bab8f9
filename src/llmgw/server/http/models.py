"""`/models`. Names may hold slashes, also percent-encoded."""

from llmgw.schema.admin.explain import Explanation
from llmgw.schema.admin.model import ChangeModel, ModelList, ModelRow, Removed, ScaleModel, ServeModel
from llmgw.schema.errors import NoLeader
from llmgw.schema.key import AdminRole
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import models, planning

_TAG = "models"


async def _list(call: Call[Nothing, Nothing]) -> ModelList:
    return ModelList(models=models.all_models(call.context.fleet))


async def _serve(call: Call[ServeModel, Nothing]) -> ModelRow:
    context = call.context
    return await models.serve(context.fleet, context.clock, call.body, actor=call.actor.id)


async def _get(call: Call[Nothing, Nothing]) -> ModelRow:
    return models.one_model(call.context.fleet, call.path["name"])


async def _explain(call: Call[Nothing, Nothing]) -> Explanation:
    return await planning.explained(call.context.fleet, call.path["name"])


async def _change(call: Call[ChangeModel, Nothing]) -> ModelRow:
    context = call.context
    return await models.change(context.fleet, context.clock, call.path["name"], call.body, actor=call.actor.id)


async def _scale(call: Call[ScaleModel, Nothing]) -> ModelRow:
    context = call.context
    return await models.scale(context.fleet, context.clock, call.path["name"], call.body, actor=call.actor.id)


async def _unpark(call: Call[Nothing, Nothing]) -> ModelRow:
    context = call.context
    return await models.unpark(context.fleet, context.clock, call.path["name"], actor=call.actor.id)


async def _remove(call: Call[Nothing, Nothing]) -> Removed:
    context = call.context
    await models.remove(context.fleet, context.clock, call.path["name"], actor=call.actor.id)
    return Removed(removed=call.path["name"])


ROUTES = (
    TypedRoute(
        method="GET",
        path="/models",
        role=AdminRole.VIEWER,
        summary="List models with their state, reasons and replicas",
        handler=_list,
        answer=ModelList,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/models",
        role=AdminRole.OPERATOR,
        summary="Serve a model",
        handler=_serve,
        body=ServeModel,
        answer=ModelRow,
        status=201,
        tag=_TAG,
    ),
    # Before the paths that end in a name: a name may end in anything.
    TypedRoute(
        method="POST",
        path="/models/{name:path}/scale",
        role=AdminRole.OPERATOR,
        summary="Set the number of replicas",
        handler=_scale,
        body=ScaleModel,
        answer=ModelRow,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/models/{name:path}/unpark",
        role=AdminRole.OPERATOR,
        summary="Try a parked model again",
        handler=_unpark,
        answer=ModelRow,
        tag=_TAG,
    ),
    TypedRoute(
        method="GET",
        path="/models/{name:path}/explain",
        role=AdminRole.VIEWER,
        summary="Say why a model is as it is, and what would make it fit",
        handler=_explain,
        answer=Explanation,
        tag=_TAG,
        errors=(NoLeader,),
    ),
    TypedRoute(
        method="GET",
        path="/models/{name:path}",
        role=AdminRole.VIEWER,
        summary="Show one model",
        handler=_get,
        answer=ModelRow,
        tag=_TAG,
    ),
    TypedRoute(
        method="PATCH",
        path="/models/{name:path}",
        role=AdminRole.OPERATOR,
        summary="Change a model's definition",
        handler=_change,
        body=ChangeModel,
        answer=ModelRow,
        tag=_TAG,
    ),
    TypedRoute(
        method="DELETE",
        path="/models/{name:path}",
        role=AdminRole.OPERATOR,
        summary="Remove a model; its replicas drain and stop",
        handler=_remove,
        answer=Removed,
        tag=_TAG,
    ),
)
