"""The whole fleet in one answer."""

from msgspec.structs import replace

from llmgw.core.summary import summarize
from llmgw.schema.summary import ControlPlanes, Summary
from llmgw.server.fleet import Fleet


def summary(fleet: Fleet, *, version: str) -> Summary:
    """Sum up the fleet from the same state as the tables. `version` was captured when the process started."""
    status = fleet.leader_status()
    found = summarize(fleet.snapshot(), version=version, leader=status.leader_name, epoch=status.epoch)
    members = fleet.control_planes()
    several = ControlPlanes(members=members) if len(members) > 1 else None
    return replace(found, control_planes=several, store_error=status.store_problem)
