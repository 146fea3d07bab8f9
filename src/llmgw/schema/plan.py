"""Plans: what the planner decided, detailed enough that whoever carries them out has no choice left."""

from enum import StrEnum

import msgspec

from llmgw.schema.value import Value


class Claim(Value, frozen=True, kw_only=True):
    """What one shard needs on its node. `None` is no constraint."""

    cores: float | None = None
    memory_bytes: int | None = None
    devices: int = 0
    device_class: str | None = msgspec.field(name="class", default=None)


class Allocation(Value, frozen=True, kw_only=True):
    """What one shard holds on its node."""

    node: str
    cores: float | None = None
    memory_bytes: int | None = None
    devices: tuple[str, ...] = ()
    """Device ids."""
    fabric: str | None = None
    """Fabric over which the replica's shards talk; `None` for a replica on one node that asked for none."""


class Constraint(StrEnum):
    """Why a node cannot take a shard. The first that applies is told; this is their order."""

    NOT_READY = "not_ready"
    SELECTOR = "selector"
    ENGINE = "engine"
    WEIGHTS = "weights"
    DEVICE_CLASS = "device_class"
    FABRIC = "fabric"
    DEVICES_BUSY = "devices_busy"
    CORES = "cores"
    MEMORY = "memory"


class Rejection(Value, frozen=True, kw_only=True):
    """One node's refusal, in data and in words ("needs 12.0 GiB of memory, 3.1 GiB free")."""

    node: str
    constraint: Constraint
    detail: str


class RefusalCount(Value, frozen=True, kw_only=True):
    """How many nodes refuse for one reason. `text` is what is told of it, of one node."""

    constraint: Constraint
    text: str
    nodes: int


class Placement(Value, frozen=True, kw_only=True):
    """A new replica of a model: one allocation per shard, rank order."""

    model: str
    revision: int
    allocations: tuple[Allocation, ...]


class Removal(Value, frozen=True, kw_only=True):
    """A replica to drain and stop, with the reason."""

    replica: str
    reason: str


class Shortfall(Value, frozen=True, kw_only=True):
    """A model that should have more replicas and fits nowhere now."""

    model: str
    missing: int
    sentence: str
    rejections: tuple[Rejection, ...] = ()
    """Each node's refusal in a small fleet; in a large one those of some nodes, the closest to fitting first."""
    counts: tuple[RefusalCount, ...] = ()
    """All nodes' refusals, summed; they add up to the number of nodes."""


class Plan(Value, frozen=True, kw_only=True):
    """One decision over one snapshot. Applying it to that snapshot and planning again gives an empty plan."""

    placements: tuple[Placement, ...] = ()
    removals: tuple[Removal, ...] = ()
    shortfalls: tuple[Shortfall, ...] = ()
    judged: frozenset[str] | None = None
    """Models its shortfalls speak of; `None`: all there are. Nothing is known of the others' room."""
