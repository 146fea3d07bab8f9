"""Which control plane leads, which stand by and which do not answer. Pure."""

from collections.abc import Collection, Sequence

from llmgw.schema.lease import LeaseStatus
from llmgw.schema.member import Member
from llmgw.schema.summary import ControlPlaneMember, ControlPlaneState


def control_planes(
    members: Sequence[Member], *, answering: Collection[str], this: str, lease: LeaseStatus
) -> tuple[ControlPlaneMember, ...]:
    """Describe all by name. `answering` has the holders that answered lately, `this` is the holder that asks.

    The lease row alone says who leads: while it names a process that does not answer, nobody is shown to.
    """
    leads = lease.holder if lease.leader_name is not None else None
    return tuple(
        ControlPlaneMember(
            name=member.name,
            address=member.api,
            state=_state(member.holder, answering=answering, this=this, leads=leads),
            this=member.holder == this,
        )
        for member in sorted(members, key=lambda member: member.name)
    )


def _state(holder: str, *, answering: Collection[str], this: str, leads: str | None) -> ControlPlaneState:
    if holder != this and holder not in answering:
        return ControlPlaneState.NOT_ANSWERING
    return ControlPlaneState.LEADING if holder == leads else ControlPlaneState.STANDING_BY
