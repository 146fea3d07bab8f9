"""The whole fleet in one answer."""

from msgspec.structs import replace

from llmgw.core.observing import observing_alarm
from llmgw.core.summary import summarize
from llmgw.schema.summary import Alarm, ControlPlanes, Summary
from llmgw.server.fleet import Fleet
from llmgw.server.services.judges import judge_problems


def summary(fleet: Fleet, *, version: str) -> Summary:
    """Sum up the fleet from the same state as the tables. `version` was captured when the process started."""
    status = fleet.leader_status()
    snapshot = fleet.snapshot()
    found = summarize(snapshot, version=version, leader=status.leader_name, epoch=status.epoch)
    members = fleet.control_planes()
    several = _with_floating(ControlPlanes(members=members), fleet) if len(members) > 1 else None
    store = fleet.surroundings.store()
    return replace(
        found,
        judges=judge_problems(fleet, snapshot),
        control_planes=several,
        store=store.members if store is not None else (),
        store_problem=store.problem if store is not None else None,
        store_error=fleet.store_problem(),
        alarms=(*_observing(fleet), *fleet.surroundings.alarms(), *found.alarms),
    )


def _observing(fleet: Fleet) -> tuple[Alarm, ...]:
    reason = fleet.observing
    return () if reason is None else (observing_alarm(reason, fleet.snapshot()),)


def _with_floating(planes: ControlPlanes, fleet: Fleet) -> ControlPlanes:
    seen = fleet.surroundings.floating()
    if seen is None:
        return planes
    return replace(
        planes,
        floating=seen.address,
        floating_up=seen.up,
        floating_state=seen.state,
        floating_hosts=seen.hosts,
        floating_problem=seen.problem,
    )
