"""Does one shard fit one node: the first constraint that rules it out, in the order of `Constraint`.

Unknown constrains nothing.
"""

import msgspec

from llmgw.core.amounts import cores_text, counted, memory_text
from llmgw.core.offer import MILLI, Kind, Spare
from llmgw.core.snapshot import ModelSnapshot
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.plan import Constraint
from llmgw.schema.value import Value

CPU = "cpu"
"""The class of nodes' own processors: claims cores and memory, never a device."""


class Need(Value, frozen=True, kw_only=True, cache_hash=True):
    """What one shard of a model needs. Models with equal needs are interchangeable."""

    engine: EngineKind
    engine_version: str | None
    variant: str | None
    path: str | None
    """Weights at exactly this path; `None` for a source that cannot be checked on nodes."""
    selector: frozenset[tuple[str, str]]
    nodes: int
    fabric: str | None
    devices: int
    device_class: str | None
    """`None` beside devices: any class, the same on all nodes."""
    milli_cores: int
    memory_bytes: int


class Refusal(Value, frozen=True, kw_only=True):
    """Why a shard does not fit a node."""

    constraint: Constraint
    detail: str


def need_of(model: ModelSnapshot) -> Need:
    """Give what one shard of a model needs."""
    profile, claim, source = model.model.profile, model.claim, model.model.source
    return Need(
        engine=profile.engine,
        engine_version=profile.engine_version,
        variant=profile.variant,
        path=source if source.startswith("/") else None,
        selector=frozenset(profile.node_selector.items()),
        nodes=profile.nodes,
        fabric=profile.fabric,
        devices=0 if claim.device_class == CPU else claim.devices,
        device_class=None if claim.device_class == CPU or claim.devices == 0 else claim.device_class,
        milli_cores=round((claim.cores or 0.0) * MILLI),
        memory_bytes=claim.memory_bytes or 0,
    )


def kind_refusal(kind: Kind, need: Need) -> Refusal | None:
    """Give the first constraint that no stopping of replicas could lift; `None` when there is none."""
    return (
        _refuse_state(kind)
        or _refuse_labels(kind, need)
        or _refuse_engine(kind, need)
        or _refuse_weights(kind, need)
        or _refuse_devices(kind, need)
        or _refuse_fabric(kind, need)
    )


def fits(spare: Spare, need: Need, device_class: str | None) -> bool:
    """True when what is left suffices; the same question as `spare_refusal`, asked often and answered fast."""
    if need.devices and (device_class is None or spare.of_class(device_class) < need.devices):
        return False
    if spare.milli_cores is not None and need.milli_cores > max(0, spare.milli_cores):
        return False
    return spare.memory_bytes is None or need.memory_bytes <= max(0, spare.memory_bytes)


def spare_refusal(kind: Kind, spare: Spare, need: Need, device_class: str | None) -> Refusal | None:
    """Give the first constraint that what runs there now imposes; `device_class` is the class chosen, if any."""
    if fits(spare, need, device_class):
        return None
    if need.devices and (device_class is None or spare.of_class(device_class) < need.devices):
        return Refusal(constraint=Constraint.DEVICES_BUSY, detail=_busy(kind, spare, need, device_class))
    if spare.milli_cores is not None and need.milli_cores > max(0, spare.milli_cores):
        return Refusal(constraint=Constraint.CORES, detail=_too_few_cores(kind, spare.milli_cores, need))
    left = spare.memory_bytes or 0
    return Refusal(constraint=Constraint.MEMORY, detail=_too_little_memory(kind, left, need))


def classes_of(need: Need, known: tuple[str, ...]) -> tuple[str | None, ...]:
    """Give the classes a need may be met by, `None` when it needs no device."""
    if need.devices == 0:
        return (None,)
    wanted = known if need.device_class is None else (need.device_class,)
    return tuple(name for name in wanted if _combines(name, need))


def may_yet_find(kind: Kind, need: Need) -> bool:
    """True when a node lacks nothing but weights outside its folders, where it has not looked yet."""
    if need.path is None or not kind.searched or need.path in kind.paths | kind.missing:
        return False
    return kind_refusal(kind, msgspec.structs.replace(need, path=None)) is None


def _refuse_state(kind: Kind) -> Refusal | None:
    return None if kind.closed is None else Refusal(constraint=Constraint.NOT_READY, detail=kind.closed)


def _refuse_labels(kind: Kind, need: Need) -> Refusal | None:
    unmet = sorted(need.selector - kind.labels)
    if not unmet:
        return None
    wanted = ", ".join(f"{name}={value}" for name, value in unmet)
    return Refusal(constraint=Constraint.SELECTOR, detail=f"is not labelled {wanted}")


def _refuse_engine(kind: Kind, need: Need) -> Refusal | None:
    if kind.engines is None:
        return None
    wanted = " ".join(part for part in (need.engine, need.engine_version, need.variant) if part)
    matching = [engine for engine in kind.engines if _is_engine(engine, need)]
    if any(engine.state is EngineState.READY for engine in matching):
        return None
    if not matching:
        return Refusal(constraint=Constraint.ENGINE, detail=f"has no {wanted}")
    state, reason = min((engine.state, engine.reason or "") for engine in matching)
    return Refusal(constraint=Constraint.ENGINE, detail=f"{wanted} is {state}" + (f": {reason}" if reason else ""))


def _is_engine(engine: EngineInstall, need: Need) -> bool:
    return (
        engine.kind is need.engine
        and need.engine_version in (None, engine.version)
        and need.variant in (None, engine.variant)
    )


def _refuse_weights(kind: Kind, need: Need) -> Refusal | None:
    if need.path is None or need.path in kind.paths:
        return None
    if not kind.searched and need.path not in kind.missing:
        return None
    return Refusal(constraint=Constraint.WEIGHTS, detail=f"lacks the weights {need.path}")


def _refuse_devices(kind: Kind, need: Need) -> Refusal | None:
    if need.devices == 0:
        return None
    if need.device_class is not None and not _combines(need.device_class, need):
        detail = f"cannot combine {need.device_class} instances"
        return Refusal(constraint=Constraint.DEVICE_CLASS, detail=detail)
    counts = {count.device_class: count.total for count in kind.devices}
    classes = classes_of(need, tuple(counts))
    most = max((counts.get(name, 0) for name in classes if name is not None), default=0)
    if most >= need.devices:
        return None
    name = need.device_class or "device"
    detail = f"has no {name}" if most == 0 else f"has only {most} {name}"
    return Refusal(constraint=Constraint.DEVICE_CLASS, detail=detail)


def _combines(device_class: str, need: Need) -> bool:
    """A process sees one MIG instance only, and instances reach no other card."""
    return "/mig-" not in device_class or (need.devices == 1 and need.nodes == 1)


def _refuse_fabric(kind: Kind, need: Need) -> Refusal | None:
    if need.fabric is not None and need.fabric not in kind.fabrics:
        return Refusal(constraint=Constraint.FABRIC, detail=f"is not in fabric {need.fabric}")
    if need.nodes > 1 and not kind.fabrics:
        return Refusal(constraint=Constraint.FABRIC, detail="is in no fabric")
    return None


def _busy(kind: Kind, spare: Spare, need: Need, device_class: str | None) -> str:
    if device_class is None:
        return f"needs {need.devices} free devices of one class"
    count = kind.of_class(device_class)
    broken = 0 if count is None else count.total - count.healthy
    unhealthy = f", {broken} unhealthy" if broken else ""
    return f"needs {need.devices} {device_class}, {spare.of_class(device_class)} free{unhealthy}"


def _too_few_cores(kind: Kind, spare: int, need: Need) -> str:
    if kind.milli_cores is not None and need.milli_cores > kind.milli_cores:
        return f"needs {_cores(need.milli_cores)}, has {cores_text(kind.milli_cores / MILLI)}"
    return f"needs {_cores(need.milli_cores)}, {cores_text(max(0, spare) / MILLI)} free"


def _too_little_memory(kind: Kind, spare: int, need: Need) -> str:
    if kind.memory_bytes is not None and need.memory_bytes > kind.memory_bytes:
        return f"needs {memory_text(need.memory_bytes)} of memory, has {memory_text(kind.memory_bytes)}"
    return f"needs {memory_text(need.memory_bytes)} of memory, {memory_text(max(0, spare))} free"


def _cores(milli_cores: int) -> str:
    cores = milli_cores / MILLI
    return counted(int(cores), "core") if cores.is_integer() else f"{cores_text(cores)} cores"
