"""Who a plan hurts: models that would have fewer replicas ready than they should, and fewer than now."""

from collections import Counter

from llmgw.core.amounts import counted
from llmgw.core.demand import desired_replicas
from llmgw.core.snapshot import Snapshot
from llmgw.schema.plan import Plan
from llmgw.schema.replica import ReplicaState


def hurts(snapshot: Snapshot, plan: Plan) -> tuple[str, ...]:
    """Give one sentence per model that loses a ready replica it needs, by name.

    What the plan starts does not count: it is not ready yet.
    """
    leaving = {removal.replica for removal in plan.removals}
    ready = [replica for replica in snapshot.replicas if replica.state is ReplicaState.READY]
    before = Counter(replica.model for replica in ready)
    after = Counter(replica.model for replica in ready if replica.id not in leaving)
    told = []
    for seen in sorted(snapshot.models, key=lambda seen: seen.model.name):
        name, desired = seen.model.name, desired_replicas(seen.model, seen.wanted)
        if after[name] < min(before[name], desired):
            told.append(f"{name} has {after[name]} of {counted(desired, 'replica')} ready until others are")
    return tuple(told)
