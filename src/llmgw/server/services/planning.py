"""Planning as operators ask for it: what would happen now, and why a model is as it is."""

import asyncio

from llmgw.core.explain import explain
from llmgw.core.plan_hurts import hurts
from llmgw.core.plan_text import plan_text
from llmgw.core.planner import plan
from llmgw.core.snapshot import Snapshot
from llmgw.schema.admin.explain import Explanation
from llmgw.schema.admin.plan import PlanAnswer
from llmgw.schema.errors import NoLeader
from llmgw.server.fleet import Fleet
from llmgw.server.services.models import find


async def planned(fleet: Fleet) -> PlanAnswer:
    """Say what would be started and stopped now. Raises `NoLeader`: only the leader hears what runs."""
    return await asyncio.to_thread(_planned, _snapshot(fleet))


async def explained(fleet: Fleet, name: str) -> Explanation:
    """Say why a model is as it is, and what would make it fit. Raises `NotFound`, `NoLeader`."""
    find(fleet.rows, name)
    snapshot = _snapshot(fleet)
    model = next(seen for seen in snapshot.models if seen.model.name == name)
    # In a thread: each change that is tried costs a few plans.
    return await asyncio.to_thread(explain, snapshot, model, plan)


def _planned(snapshot: Snapshot) -> PlanAnswer:
    made = plan(snapshot)
    hurt = hurts(snapshot, made)
    return PlanAnswer(
        placements=made.placements,
        removals=made.removals,
        shortfalls=made.shortfalls,
        changes=len(made.placements) + len(made.removals),
        hurts=hurt,
        text="\n".join([plan_text(made), *(f"hurts {sentence}" for sentence in hurt)]),
    )


def _snapshot(fleet: Fleet) -> Snapshot:
    if fleet.is_leader():
        return fleet.snapshot()
    status = fleet.leader_status()
    leads = f"{status.leader_name} leads" if status.leader_name else "no control plane leads right now"
    raise NoLeader(
        f"this control plane does not know what runs: {leads}",
        hint=f"ask {status.leader_address}" if status.leader_address else "try again once one leads",
    )
