"""Demand: how many replicas a model should have now, from what gateways say of it.

From nothing to one at once, further ones only for demand that lasts, and fewer only for a model that asks for it: a
start is dear, an idle replica mostly is not. Numbers: facts on on-demand models, section 0, rules 13 and 14.
"""

import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from llmgw.schema.model import Model
from llmgw.schema.value import Value

LONG_WAIT_S = 2.0
"""A wait that is worth another replica once it lasts."""
PRESSED_S = 30.0
CROWD = 2.0
"""So many times what its replicas can work on at once is a crowd: waiting half a minute would only make it longer."""
CROWDED_S = 6.0
GIVE_UP_S = 600.0
"""Replicas that nobody asked for so long are no longer wanted where none of them could be started."""


class ModelLoad(Value, frozen=True, kw_only=True):
    """What all gateways together say of a model."""

    held: int = 0
    """Requests that wait for a replica or a slot."""
    in_flight: int = 0
    """Requests at engines."""
    arrivals: int = 0
    """Requests since somebody counts, refused ones included: it grows while somebody asks."""
    oldest_wait_s: float | None = None


class Supply(Value, frozen=True, kw_only=True):
    """What a model has."""

    existing: int
    """Replicas that are not being stopped."""
    ready: int
    slots: int | None
    """Requests one replica works on at once; `None` is not known."""


class Scale(Value, frozen=True, kw_only=True):
    """How many replicas demand asks for, and what the next decision needs to know. Times are monotonic seconds."""

    wanted: int
    floor: int
    """The model's minimum when this was decided: operators who change it begin anew."""
    arrivals: int
    asked_at: float
    """When there was demand last; a request counts until its end."""
    pressed_since: float | None = None
    crowded_since: float | None = None


def desired_replicas(model: Model, wanted: int | None = None) -> int:
    """Give the number of replicas that should run: what demand wants (`None`: nothing), within minimum and maximum."""
    return min(max(model.min, wanted or 0), model.max)


def kept(wanted: Mapping[str, int], needed: Iterable[str]) -> dict[str, int]:
    """Give the replicas wanted when `needed` models have one at least, whether somebody asks for them or not."""
    return {**wanted, **{name: max(wanted.get(name, 0), 1) for name in needed}}


def next_scale(before: Scale | None, model: Model, load: ModelLoad | None, supply: Supply, *, now: float) -> Scale:
    """Decide anew. `load` is `None` while no gateway reports: then nothing changes, least of all downwards."""
    scale = _begin(before, model, load, supply, now)
    if load is None:
        return replace(scale, asked_at=now, pressed_since=None, crowded_since=None)
    asked = load.held > 0 or load.in_flight > 0 or load.arrivals > scale.arrivals
    scale = replace(scale, arrivals=load.arrivals, asked_at=now if asked else scale.asked_at)
    if not asked:
        scale = replace(scale, pressed_since=None, crowded_since=None)
        return replace(scale, wanted=desired_replicas(model, _unasked(scale, model, supply, now)))
    scale = _crowded(_pressed(scale, load, supply, now), load, supply, now)
    return replace(scale, wanted=desired_replicas(model, max(scale.wanted, 1)))


def _begin(before: Scale | None, model: Model, load: ModelLoad | None, supply: Supply, now: float) -> Scale:
    if before is not None and before.floor == model.min:
        return before
    # A new leader knows of no demand: what runs was wanted. An operator who changes the minimum means the number.
    wanted = supply.existing if before is None else model.min
    arrivals = load.arrivals if load is not None else 0
    return Scale(wanted=desired_replicas(model, wanted), floor=model.min, arrivals=arrivals, asked_at=now)


def _unasked(scale: Scale, model: Model, supply: Supply, now: float) -> int:
    """Give what is wanted while nobody asks."""
    silent_s = now - scale.asked_at
    if model.idle_s and silent_s >= model.idle_s:
        return model.min
    if silent_s >= GIVE_UP_S:
        return min(scale.wanted, supply.existing)
    return scale.wanted


def _pressed(scale: Scale, load: ModelLoad, supply: Supply, now: float) -> Scale:
    """One more where requests waited too long for half a minute, although all that is wanted is there."""
    is_pressed = (load.oldest_wait_s or 0.0) >= LONG_WAIT_S and supply.ready >= scale.wanted > 0
    if not is_pressed:
        return replace(scale, pressed_since=None)
    since = now if scale.pressed_since is None else scale.pressed_since
    if now - since < PRESSED_S:
        return replace(scale, pressed_since=since)
    return replace(scale, pressed_since=None, wanted=scale.wanted + 1)


def _crowded(scale: Scale, load: ModelLoad, supply: Supply, now: float) -> Scale:
    """As many as there is work for, once there is far more than the replicas there are can do."""
    requests = load.held + load.in_flight
    is_crowd = supply.slots is not None and requests >= CROWD * supply.slots * max(supply.ready, 1)
    if not is_crowd:
        return replace(scale, crowded_since=None)
    since = now if scale.crowded_since is None else scale.crowded_since
    if supply.slots is None or now - since < CROWDED_S:
        return replace(scale, crowded_since=since)
    return replace(scale, crowded_since=since, wanted=max(scale.wanted, math.ceil(requests / supply.slots)))
