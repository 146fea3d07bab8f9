"""Does one shard fit one node: the first constraint that rules it out, in the order of `Constraint`.

Unknown constrains nothing.
"""

import msgspec

from llmgw.core.amounts import cores_text, counted, memory_text
from llmgw.core.offer import MILLI, Kind, Sight, Spare
from llmgw.core.plan_text import LACKS
from llmgw.core.snapshot import ModelSnapshot
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.plan import Constraint
from llmgw.schema.value import Value

CPU = "cpu"
"""The class of nodes' own processors: claims cores and memory, never a device."""
_ANYWHERE: frozenset[tuple[str, str]] = frozenset()


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
        selector=frozenset(profile.node_selector.items()) if profile.node_selector else _ANYWHERE,
        nodes=profile.nodes,
        fabric=profile.fabric,
        devices=0 if claim.device_class == CPU else claim.devices,
        device_class=None if claim.device_class == CPU or claim.devices == 0 else claim.device_class,
        milli_cores=round((claim.cores or 0.0) * MILLI),
        memory_bytes=claim.memory_bytes or 0,
    )


def before_weights(kind: Kind, need: Need) -> Refusal | None:
    """Give the first constraint that comes before the weights."""
    return _refuse_state(kind) or _refuse_labels(kind, need) or _refuse_engine(kind, need)


def after_weights(kind: Kind, need: Need) -> Refusal | None:
    """Give the first constraint that comes after the weights and before what runs on the node."""
    return _refuse_devices(kind, need) or _refuse_fabric(kind, need)


def unmet(kind: Kind, sight: Sight, spare: Spare, need: Need, classes: tuple[str | None, ...]) -> tuple[Refusal, ...]:
    """Give all constraints that keep a shard off a node, in their order, and not the first only."""
    devices = _refuse_devices(kind, need)
    found = (
        _refuse_state(kind),
        _refuse_labels(kind, need),
        _refuse_engine(kind, need),
        weights_refusal(sight, need),
        devices,
        _refuse_fabric(kind, need),
        None if devices else _refuse_busy(kind, spare, need, classes),
        _refuse_cores(spare, need),
        _refuse_memory(spare, need),
    )
    return tuple([refusal for refusal in found if refusal is not None])


def weights_refusal(sight: Sight, need: Need) -> Refusal | None:
    """Say that a node which looked lacks the weights."""
    if need.path is None or need.path in sight.paths:
        return None
    if not sight.searched and need.path not in sight.missing:
        return None
    return Refusal(constraint=Constraint.WEIGHTS, detail=f"{LACKS} {need.path}")


def may_yet_find(sight: Sight, need: Need) -> bool:
    """True when a node may have weights outside its folders, where it has not looked yet."""
    return need.path is not None and sight.searched and need.path not in sight.paths and need.path not in sight.missing


def apart(need: Need) -> Need:
    """Give the need without its amounts and weights: models of many sources and sizes share it."""
    return msgspec.structs.replace(need, path=None, milli_cores=0, memory_bytes=0)


def spare_refusal(kind: Kind, spare: Spare, need: Need, classes: tuple[str | None, ...]) -> Refusal | None:
    """Give the first constraint that what runs there now imposes; `classes` are those that may meet the need."""
    return _refuse_busy(kind, spare, need, classes) or _refuse_cores(spare, need) or _refuse_memory(spare, need)


def classes_of(need: Need, known: tuple[str, ...]) -> tuple[str | None, ...]:
    """Give the classes a need may be met by, `None` when it needs no device."""
    if need.devices == 0:
        return (None,)
    if need.device_class is not None:
        return (need.device_class,) if _combines(need.device_class, need) else ()
    return tuple([name for name in known if _combines(name, need)])


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
    matching = [engine for engine in kind.engines if _is_engine(engine, need)]
    if any(engine.state is EngineState.READY for engine in matching):
        return None
    wanted = " ".join(part for part in (need.engine, need.engine_version, need.variant) if part)
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


def _refuse_devices(kind: Kind, need: Need) -> Refusal | None:
    if need.devices == 0:
        return None
    name = need.device_class
    if name is not None and not _combines(name, need):
        return Refusal(constraint=Constraint.DEVICE_CLASS, detail=f"cannot combine {name} instances")
    most = 0
    for count in kind.devices:
        if count.total > most and (
            count.device_class == name or (name is None and _combines(count.device_class, need))
        ):
            most = count.total
    if most >= need.devices:
        return None
    name = name or "device"
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


def _refuse_busy(kind: Kind, spare: Spare, need: Need, classes: tuple[str | None, ...]) -> Refusal | None:
    if need.devices == 0 or any(spare.of_class(name) >= need.devices for name in classes if name is not None):
        return None
    return Refusal(constraint=Constraint.DEVICES_BUSY, detail=_busy(kind, spare, need, classes))


def _refuse_cores(spare: Spare, need: Need) -> Refusal | None:
    if spare.milli_cores is None or need.milli_cores <= max(0, spare.milli_cores):
        return None
    return Refusal(constraint=Constraint.CORES, detail=_too_few_cores(spare, need))


def _refuse_memory(spare: Spare, need: Need) -> Refusal | None:
    if spare.memory_bytes is None or need.memory_bytes <= max(0, spare.memory_bytes):
        return None
    return Refusal(constraint=Constraint.MEMORY, detail=_too_little_memory(spare, need))


def _busy(kind: Kind, spare: Spare, need: Need, classes: tuple[str | None, ...]) -> str:
    name = classes[0] if len(classes) == 1 else None
    if name is None:
        return f"needs {need.devices} free devices of one class"
    count = kind.of_class(name)
    broken = 0 if count is None else count.total - count.healthy
    unhealthy = f", {broken} unhealthy" if broken else ""
    return f"needs {need.devices} {name}, {spare.of_class(name)} free{unhealthy}"


def _too_few_cores(spare: Spare, need: Need) -> str:
    of = spare.of_milli_cores or 0
    if need.milli_cores > of:
        return f"needs {_cores(need.milli_cores)}, has {cores_text(of / MILLI)}"
    return f"needs {_cores(need.milli_cores)}, {cores_text(max(0, spare.milli_cores or 0) / MILLI)} free"


def _too_little_memory(spare: Spare, need: Need) -> str:
    of, wanted = spare.of_memory_bytes or 0, memory_text(need.memory_bytes)
    if need.memory_bytes > of:
        return f"needs {wanted} of memory, has {memory_text(of)}"
    return f"needs {wanted} of memory, {memory_text(max(0, spare.memory_bytes or 0))} free"


def _cores(milli_cores: int) -> str:
    cores = milli_cores / MILLI
    return counted(int(cores), "core") if cores.is_integer() else f"{cores_text(cores)} cores"
