"""The whole fleet in one answer, by spec section 10. Lists and fields with nothing to say are left out."""

from enum import StrEnum

import msgspec

from llmgw.schema.floating import FloatingState
from llmgw.schema.guard.judge import JudgeStatus
from llmgw.schema.store import StoreMember
from llmgw.schema.value import Value


class NodeCounts(Value, frozen=True, kw_only=True):
    """Nodes by shown state; lost counts as unreachable."""

    total: int
    ready: int
    cordoned: int
    draining: int
    unreachable: int


class ClassCounts(Value, frozen=True, kw_only=True):
    """Devices of one class; free = total - used - unhealthy."""

    device_class: str = msgspec.field(name="class")
    total: int
    used: int
    unhealthy: int


class FabricCounts(Value, frozen=True, kw_only=True):
    """One fabric: nodes of every state, those with weights, distinct weights, ready nodes that are wholly free."""

    fabric: str
    nodes: int
    nodes_with_weights: int
    models_present: int
    largest_free_block: int


class ReplicaCounts(Value, frozen=True, kw_only=True):
    """Replicas by state; any other state counts as starting."""

    ready: int
    starting: int
    draining: int
    failed: int


class ModelCounts(Value, frozen=True, kw_only=True):
    """Satisfied: ready replicas reach the desired number now, and the model is not parked."""

    total: int
    satisfied: int
    short: int


class ParkedModel(Value, frozen=True, kw_only=True):
    """A model that is no longer tried."""

    model: str
    failures: int
    reason: str


class IdleReplica(Value, frozen=True, kw_only=True):
    """A replica that is ready and was not asked for at least ten minutes."""

    id: str
    model: str
    idle_seconds: int
    gpus: int


class AlarmKind(StrEnum):
    """What an alarm is about."""

    REPLACEMENT_HELD = "replacement_held"
    SERVES_UNREPORTED = "serves_unreported"
    FLAPPING = "flapping"
    DISK_FULL = "disk_full"
    OBSERVING = "observing"
    """The store was restored: nothing is ordered until an operator resumes."""


class Alarm(Value, frozen=True, kw_only=True):
    """Something about nodes or control planes that needs an operator's eye now."""

    kind: AlarmKind
    text: str
    node: str | None = None


class ControlPlaneState(StrEnum):
    """What a control plane does now, in the words people are shown."""

    LEADING = "leading"
    STANDING_BY = "standing by"
    NOT_ANSWERING = "not answering"
    """Not a word for 6 s, though it is asked every 2 s."""


class ControlPlaneMember(Value, frozen=True, kw_only=True):
    """One control plane."""

    name: str
    address: str
    """Root URL of its API."""
    state: ControlPlaneState
    this: bool
    """True for the one that answers."""


class ControlPlanes(Value, frozen=True, kw_only=True, omit_defaults=True):
    """All control planes, where there are several."""

    members: tuple[ControlPlaneMember, ...]
    floating: str | None = None
    """The floating address; it and what follows are absent where none is configured."""
    floating_up: bool | None = None
    """A leader answered through it."""
    floating_state: FloatingState | None = None
    floating_hosts: tuple[str, ...] = ()
    """Control planes whose hosts have it."""
    floating_problem: str | None = None


class Summary(Value, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /api/v1/summary`."""

    version: str
    leader: str | None = None
    """Name of the control plane that leads; absent when none is known to."""
    epoch: int | None = None
    nodes: NodeCounts
    gpus: tuple[ClassCounts, ...] = ()
    fabrics: tuple[FabricCounts, ...] = ()
    replicas: ReplicaCounts
    models: ModelCounts
    unplaceable: tuple[str, ...] = ()
    parked: tuple[ParkedModel, ...] = ()
    idle_replicas: tuple[IdleReplica, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    judges: tuple[JudgeStatus, ...] = ()
    """Judges with a problem."""
    control_planes: ControlPlanes | None = None
    """Absent where there is one only."""
    store: tuple[StoreMember, ...] = ()
    """Members of a replicated store; absent where `patroni` is not configured."""
    store_problem: str | None = None
    """What is wrong with the replicated store as a whole."""
    store_error: str | None = None
    """Why the store does not answer; while it does not, nothing can be changed."""
