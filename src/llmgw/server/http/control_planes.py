"""`/control-planes`."""

from llmgw.schema.admin.control_plane import ControlPlaneList, StepDown, SteppedDown
from llmgw.schema.admin.model import Removed
from llmgw.schema.key import AdminRole
from llmgw.server.http.typed_route import Call, Nothing, TypedRoute
from llmgw.server.services import control_planes

_TAG = "control planes"


async def _list(call: Call[Nothing, Nothing]) -> ControlPlaneList:
    return control_planes.all_control_planes(call.context.fleet)


async def _step_down(call: Call[StepDown, Nothing]) -> SteppedDown:
    return control_planes.step_down(call.context.fleet, seconds=call.body.seconds)


async def _remove(call: Call[Nothing, Nothing]) -> Removed:
    await call.context.fleet.forget_control_plane(call.path["name"])
    return Removed(removed=call.path["name"])


ROUTES = (
    TypedRoute(
        method="GET",
        path="/control-planes",
        role=AdminRole.VIEWER,
        summary="Say which control plane leads, which stand by, and which do not answer",
        handler=_list,
        answer=ControlPlaneList,
        tag=_TAG,
    ),
    TypedRoute(
        method="POST",
        path="/control-planes/step-down",
        role=AdminRole.ADMIN,
        summary="Have the leader let go of the lease; another control plane takes it at once",
        handler=_step_down,
        body=StepDown,
        answer=SteppedDown,
        tag=_TAG,
    ),
    TypedRoute(
        method="DELETE",
        path="/control-planes/{name}",
        role=AdminRole.ADMIN,
        summary="Forget a control plane that is gone for good",
        handler=_remove,
        answer=Removed,
        tag=_TAG,
    ),
)
