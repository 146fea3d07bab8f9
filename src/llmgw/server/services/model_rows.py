"""How a model is shown: one state word, and why it is not ready, in words."""

from collections.abc import Mapping

from llmgw.core.demand import desired_replicas
from llmgw.core.patience import waiting, waiting_text
from llmgw.core.snapshot import ModelSnapshot
from llmgw.core.wants import is_absent
from llmgw.schema.admin.model import ModelRow, ModelState
from llmgw.schema.admin.replica import ReplicaRow
from llmgw.schema.model import Model, ModelStatus
from llmgw.schema.replica import ReplicaState
from llmgw.server.fleet import Fleet
from llmgw.server.services.replicas import all_replicas


def model_rows(fleet: Fleet) -> tuple[ModelRow, ...]:
    """Give all models by name, each with its replicas."""
    written = {model.name: model for model in fleet.rows.models}
    replicas: dict[str, list[ReplicaRow]] = {}
    for replica in all_replicas(fleet):
        replicas.setdefault(replica.model, []).append(replica)
    snapshot = fleet.snapshot()
    states = {seen.node.id: seen.state for seen in snapshot.nodes}
    absent = frozenset(replica.id for replica in snapshot.replicas if is_absent(replica, states))
    patient = {replica.model: waiting_text(written[replica.model], replica) for replica in waiting(snapshot)}
    return tuple(
        _row(written[model.model.name], model, tuple(replicas.get(model.model.name, ())), absent, patient)
        for model in snapshot.models
    )


def state_of(status: ModelStatus, replicas: tuple[ReplicaRow, ...], *, desired: int) -> tuple[ModelState, str | None]:
    """Give the state word and the reason; the first that applies wins."""
    by_state = _by_state(replicas)
    ready = len(by_state.get(ReplicaState.READY, ()))
    if status.parked is not None:
        return ModelState.PARKED, status.parked.reason
    if ready >= desired:
        return ModelState.READY, None
    if status.unplaceable is not None:
        return ModelState.UNPLACEABLE, status.unplaceable
    starting = by_state.get(ReplicaState.STARTING, ())
    if starting:
        return ModelState.STARTING, _progress(starting) or status.last_failure
    return ModelState.SHORT, _why_short(status, by_state.get(ReplicaState.FAILED, ()))


def _row(
    written: Model,
    seen: ModelSnapshot,
    replicas: tuple[ReplicaRow, ...],
    absent: frozenset[str],
    patient: Mapping[str, str],
) -> ModelRow:
    """`absent` names replicas that were lost with their nodes: shown, and not counted as serving.

    `patient` has for models whose lost replicas are not replaced yet why they are not.
    """
    desired = desired_replicas(written, seen.wanted)
    there = tuple(replica for replica in replicas if replica.id not in absent)
    state, reason = state_of(seen.status, there, desired=desired)
    if state is ModelState.SHORT:
        reason = patient.get(written.name, reason)
    return ModelRow(
        name=written.name,
        source=written.source,
        role=written.role,
        min=written.min,
        max=written.max,
        idle_s=written.idle_s,
        lost_after=written.lost_after,
        routing=written.routing,
        revision=written.revision,
        created_at=written.created_at,
        profile=written.profile,
        resolved=seen.model.profile,
        desired=desired,
        ready=sum(replica.state is ReplicaState.READY for replica in there),
        state=state,
        reason=reason,
        failures=seen.status.failures,
        retry_at=seen.status.retry_at,
        rejections=seen.status.rejections,
        replicas=replicas,
    )


def _by_state(replicas: tuple[ReplicaRow, ...]) -> Mapping[ReplicaState, tuple[ReplicaRow, ...]]:
    return {
        state: tuple(replica for replica in replicas if replica.state is state)
        for state in {replica.state for replica in replicas}
    }


def _progress(starting: tuple[ReplicaRow, ...]) -> str | None:
    told = (shard.progress for replica in starting for shard in replica.shards if shard.progress)
    return next(told, None) or next((replica.reason for replica in starting if replica.reason), None)


def _why_short(status: ModelStatus, failed: tuple[ReplicaRow, ...]) -> str:
    cause = status.last_failure or next((replica.reason for replica in failed if replica.reason), None)
    if cause is None:
        return "waits to be placed"
    if status.retry_at is None:
        return cause
    return f"{cause}; tried again at {status.retry_at:%H:%M:%S} UTC"
