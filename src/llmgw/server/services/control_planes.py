"""The control planes: who leads, who stands by, and handing the lead over."""

from llmgw.schema.admin.control_plane import ControlPlaneList, SteppedDown
from llmgw.schema.errors import Conflict
from llmgw.schema.summary import ControlPlaneMember, ControlPlaneState
from llmgw.server.fleet import Fleet


def all_control_planes(fleet: Fleet) -> ControlPlaneList:
    """Give all control planes, also when there is one only."""
    return ControlPlaneList(control_planes=fleet.control_planes(), epoch=fleet.leader_status().epoch)


def step_down(fleet: Fleet, *, seconds: float) -> SteppedDown:
    """Let go of the lease, and leave it to others for `seconds`.

    Raises `Conflict` when no other control plane stands by, and `NoLeader` where this one does not lead.
    """
    others = tuple(one.name for one in fleet.control_planes() if one.state is ControlPlaneState.STANDING_BY)
    this = next((one for one in fleet.control_planes() if one.this), None)
    if not others:
        raise Conflict("no other control plane stands by: nobody would lead", hint="llmgw ctl server list shows all")
    fleet.step_down(seconds)
    return SteppedDown(stepped_down=_name(this), seconds=seconds, standing_by=others)


def _name(this: ControlPlaneMember | None) -> str:
    return "this control plane" if this is None else this.name
