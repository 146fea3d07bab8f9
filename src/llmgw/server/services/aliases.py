"""Aliases: names of models that clients may ask beside the models' own."""

import math
from collections import Counter

import msgspec

from llmgw.ports import AppendEvent, Clock, DeleteAlias, FleetRows, Write
from llmgw.ports import PutAlias as WriteAlias
from llmgw.schema.admin.alias import AliasList, PutAlias
from llmgw.schema.alias import MAX_FALLBACKS, MAX_SHARES, Alias, Share
from llmgw.schema.errors import Conflict, InvalidInput, NotFound
from llmgw.schema.event import Event, Severity
from llmgw.server.fleet import Fleet
from llmgw.server.services.definition import check_name


def all_aliases(fleet: Fleet) -> AliasList:
    """Give all aliases by name."""
    return AliasList(aliases=fleet.aliases)


def one_alias(fleet: Fleet, name: str) -> Alias:
    """Give one alias. Raises `NotFound`."""
    for alias in fleet.aliases:
        if alias.name == name:
            return alias
    raise NotFound(f"there is no alias {name!r}", hint="llmgw ctl alias list shows those there are")


async def put(fleet: Fleet, clock: Clock, name: str, request: PutAlias, *, actor: str) -> Alias:
    """Make or change an alias. Raises `InvalidInput` naming the field, or `Conflict` when a model has the name."""
    check_name(name)
    shares = tuple(Share(model=share.model, weight=share.weight) for share in request.shares)
    wanted = Alias(name=name, shares=shares, fallbacks=request.fallbacks, changed_at=clock.now())

    def decide(rows: FleetRows) -> tuple[Write, ...]:
        if any(model.name == name for model in rows.models):
            raise Conflict(f"{name!r} is a model's own name", hint="choose another name for the alias", field="name")
        _check(wanted, rows)
        before = next((alias for alias in fleet.aliases if alias.name == name), None)
        if before is not None and (before.shares, before.fallbacks) == (wanted.shares, wanted.fallbacks):
            return ()
        after = msgspec.structs.replace(wanted, revision=1 if before is None else before.revision + 1)
        return WriteAlias(alias=after), _event(clock, "alias.changed", f"alias {name}: {told(after)}", actor)

    await fleet.change(decide)
    return one_alias(fleet, name)


async def remove(fleet: Fleet, clock: Clock, name: str, *, actor: str) -> None:
    """Remove an alias; the models behind it stay. Raises `NotFound`."""

    def decide(_: FleetRows) -> tuple[Write, ...]:
        one_alias(fleet, name)
        return DeleteAlias(name=name), _event(clock, "alias.removed", f"alias {name}: removed", actor)

    await fleet.change(decide)


def told(alias: Alias) -> str:
    """Say in words where requests to it go."""
    total = sum(share.weight for share in alias.shares)
    parts = [f"{share.model} {share.weight / total:.0%}" for share in alias.shares]
    others = f", else {' or '.join(alias.fallbacks)}" if alias.fallbacks else ""
    return ", ".join(parts) + others


def _check(alias: Alias, rows: FleetRows) -> None:
    _check_count("shares", len(alias.shares), least=1, most=MAX_SHARES)
    _check_count("fallbacks", len(alias.fallbacks), least=0, most=MAX_FALLBACKS)
    for number, share in enumerate(alias.shares):
        if not (math.isfinite(share.weight) and share.weight > 0):
            field = f"shares[{number}].weight"
            raise InvalidInput(f"{field} must be above 0", field=field, allowed=("a number above 0",))
    models = {model.name: model for model in rows.models}
    named = [(f"shares[{number}].model", share.model) for number, share in enumerate(alias.shares)]
    named += [(f"fallbacks[{number}]", model) for number, model in enumerate(alias.fallbacks)]
    for field, model in named:
        if model not in models:
            known = tuple(sorted(models))
            raise InvalidInput(f"{field} names {model!r}, which is no model", field=field, allowed=known)
    twice = [model for model, count in Counter(model for _, model in named).items() if count > 1]
    if twice:
        raise InvalidInput(f"{twice[0]!r} is named more than once", field="shares", allowed=("each model once",))
    roles = {models[model].role for _, model in named}
    if len(roles) > 1:
        words = " and ".join(sorted(role.value for role in roles))
        raise InvalidInput(f"the models have the roles {words}", field="shares", allowed=("models of one role",))


def _check_count(field: str, count: int, *, least: int, most: int) -> None:
    if not least <= count <= most:
        raise InvalidInput(f"{field} has {least} to {most} models", field=field, allowed=(f"{least}..{most}",))


def _event(clock: Clock, kind: str, message: str, actor: str) -> AppendEvent:
    return AppendEvent(event=Event(at=clock.now(), kind=kind, severity=Severity.INFO, message=message, actor=actor))
