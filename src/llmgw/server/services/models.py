"""Models: what clients name in a request, and how operators define them."""

from llmgw.core.parking import unparked
from llmgw.ports import AppendEvent, Clock, DeleteModel, FleetRows, PutModel, PutStatus, Write
from llmgw.schema.admin.model import ChangeModel, ModelRow, ScaleModel, ServeModel
from llmgw.schema.errors import Conflict, NotFound
from llmgw.schema.event import Event, Severity
from llmgw.schema.model import Model, ModelStatus
from llmgw.server.fleet import Fleet
from llmgw.server.services import definition
from llmgw.server.services.model_rows import model_rows


def all_models(fleet: Fleet) -> tuple[ModelRow, ...]:
    """Give all models by name."""
    return model_rows(fleet)


def one_model(fleet: Fleet, name: str) -> ModelRow:
    """Give one model. Raises `NotFound`."""
    for row in model_rows(fleet):
        if row.name == name:
            return row
    raise _not_found(name)


async def serve(fleet: Fleet, clock: Clock, request: ServeModel, *, actor: str) -> ModelRow:
    """Define a model. Raises `InvalidInput`, or `Conflict` when the name is taken."""
    model = definition.defined(request, created_at=clock.now())

    def decide(rows: FleetRows) -> tuple[Write, ...]:
        if any(known.name == model.name for known in rows.models):
            raise Conflict(
                f"model {model.name!r} exists already",
                hint="change it with PATCH, or remove it first (llmgw ctl model remove)",
                field="name",
            )
        if any(alias.name == model.name for alias in fleet.aliases):
            raise Conflict(
                f"{model.name!r} is an alias of other models",
                hint="choose another name, or remove the alias first (llmgw ctl alias remove)",
                field="name",
            )
        # A status of its own: whatever an earlier model of that name left behind is not this one's.
        fresh = PutStatus(status=ModelStatus(model=model.name, revision=model.revision))
        return PutModel(model=model), fresh, _event(clock, "model.created", model, f"served from {model.source}", actor)

    await fleet.change(decide)
    return one_model(fleet, model.name)


async def change(fleet: Fleet, clock: Clock, name: str, request: ChangeModel, *, actor: str) -> ModelRow:
    """Change a definition; what changes how replicas run rolls them. Raises `NotFound`, `InvalidInput`."""

    def decide(rows: FleetRows) -> tuple[Write, ...]:
        before = find(rows, name)
        after = definition.changed(before, request)
        if after == before:
            return ()
        return PutModel(model=after), _event(clock, "model.changed", after, f"now at revision {after.revision}", actor)

    await fleet.change(decide)
    return one_model(fleet, name)


async def scale(fleet: Fleet, clock: Clock, name: str, request: ScaleModel, *, actor: str) -> ModelRow:
    """Set how many replicas should run. Raises `NotFound`, `InvalidInput`."""

    def decide(rows: FleetRows) -> tuple[Write, ...]:
        before = find(rows, name)
        after = definition.scaled(before, request.replicas)
        if after == before:
            return ()
        told = f"scaled from {before.min} to {after.min} replicas"
        return PutModel(model=after), _event(clock, "model.scaled", after, told, actor)

    await fleet.change(decide)
    return one_model(fleet, name)


async def unpark(fleet: Fleet, clock: Clock, name: str, *, actor: str) -> ModelRow:
    """Try a parked model again, or one that waits for its back-off now; otherwise a no-op. Raises `NotFound`."""

    def decide(rows: FleetRows) -> tuple[Write, ...]:
        model = find(rows, name)
        status = next((status for status in rows.statuses if status.model == name), None)
        if status is None or unparked(status) == status:
            return ()
        told = "to be tried again"
        return PutStatus(status=unparked(status)), _event(clock, "model.unparked", model, told, actor)

    await fleet.change(decide)
    return one_model(fleet, name)


async def remove(fleet: Fleet, clock: Clock, name: str, *, actor: str) -> None:
    """Remove a model; its replicas drain and stop. Raises `NotFound`."""

    def decide(rows: FleetRows) -> tuple[Write, ...]:
        model = find(rows, name)
        return DeleteModel(name=name), _event(clock, "model.removed", model, "removed", actor)

    await fleet.change(decide)


def find(rows: FleetRows, name: str) -> Model:
    """Give a model as stored. Raises `NotFound`."""
    for model in rows.models:
        if model.name == name:
            return model
    raise _not_found(name)


def _not_found(name: str) -> NotFound:
    return NotFound(f"there is no model {name!r}", hint="llmgw ctl model list shows those there are")


def _event(clock: Clock, kind: str, model: Model, told: str, actor: str) -> AppendEvent:
    return AppendEvent(
        event=Event(
            at=clock.now(),
            kind=kind,
            severity=Severity.INFO,
            message=f"model {model.name}: {told}",
            model=model.name,
            actor=actor,
        )
    )
