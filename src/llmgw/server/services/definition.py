"""What a model's definition may say. Checked before anything changes."""

import re
from pathlib import PurePosixPath
from typing import Any

import msgspec

from llmgw.engines.registry import adapter
from llmgw.schema.admin.model import MAX_NAME, MAX_REPLICAS, MAX_SOURCE, NAME_PATTERN, ChangeModel, ServeModel
from llmgw.schema.engine import EngineKind
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import LOST_AFTER_MIN_S, NEVER, Model, Profile
from llmgw.server.services import strict

MAX_TEXT = 200

_NAME = re.compile(NAME_PATTERN)
_HUB = re.compile(r"hf:[A-Za-z0-9._-]+/[A-Za-z0-9._-]+@[A-Za-z0-9._/-]+(:[^:\x00-\x1f]+)?")


def defined(request: ServeModel, *, created_at: Any) -> Model:
    """Make the model that `request` describes. Raises `InvalidInput`."""
    return checked(
        Model(
            name=request.name,
            source=request.source,
            role=request.role,
            min=request.min,
            max=max(request.min, 1) if request.max is None else request.max,
            idle_s=request.idle_s,
            lost_after=request.lost_after,
            routing=request.routing,
            profile=request.profile,
            created_at=created_at,
        )
    )


def changed(model: Model, change: ChangeModel) -> Model:
    """Apply a change. Only what replicas run by makes a new revision: scaling restarts nothing."""
    given = {name: value for name, value in _fields(change).items() if value is not None and name != "profile"}
    if change.lost_after == "default":
        given["lost_after"] = None
    after = msgspec.structs.replace(model, **given)
    if change.profile is not None:
        after = msgspec.structs.replace(after, profile=_merged(model.profile, change.profile))
    if (after.source, after.role, after.profile) != (model.source, model.role, model.profile):
        after = msgspec.structs.replace(after, revision=model.revision + 1)
    return checked(after)


def scaled(model: Model, replicas: int) -> Model:
    """Ask for exactly `replicas` now, and allow as many."""
    if not 0 <= replicas <= MAX_REPLICAS:
        raise InvalidInput(
            f"replicas must be between 0 and {MAX_REPLICAS}", field="replicas", allowed=(f"0..{MAX_REPLICAS}",)
        )
    return msgspec.structs.replace(model, min=replicas, max=max(model.max, replicas))


def checked(model: Model) -> Model:
    """Give the model back, or raise `InvalidInput` naming the field and what is allowed."""
    check_name(model.name)
    _check_source(model.source)
    if not 0 <= model.min <= MAX_REPLICAS:
        raise InvalidInput(f"min must be between 0 and {MAX_REPLICAS}", field="min", allowed=(f"0..{MAX_REPLICAS}",))
    lowest = max(model.min, 1)
    if not lowest <= model.max <= MAX_REPLICAS:
        raise InvalidInput(
            f"max must be between {lowest} (min) and {MAX_REPLICAS}",
            field="max",
            allowed=(f"{lowest}..{MAX_REPLICAS}",),
        )
    if model.idle_s is not None and not 0 <= model.idle_s < float("inf"):
        raise InvalidInput("idle_s must be 0 or more seconds", field="idle_s", allowed=("0 or more",))
    _check_lost_after(model)
    _check_numbers(model.profile)
    _check_texts(model.profile)
    _check_engine(model)
    return model


def check_name(name: str) -> None:
    """Raise `InvalidInput` for a name that no model, and no alias, may have."""
    if len(name) <= MAX_NAME and _NAME.fullmatch(name):
        return
    raise InvalidInput(
        f"model name {name[:MAX_NAME]!r} is not allowed",
        hint=f"use 1 to {MAX_NAME} letters, digits and . _ - : /, with something between two slashes",
        field="name",
        allowed=("letters", "digits", ". _ - : /"),
    )


def _check_source(source: str) -> None:
    if len(source.encode()) > MAX_SOURCE:
        raise InvalidInput(
            f"source is longer than {MAX_SOURCE} bytes", field="source", allowed=(f"0..{MAX_SOURCE} bytes",)
        )
    if _HUB.fullmatch(source) and ".." not in re.split(r"[/:@]", source):
        return
    if source.startswith("/") and "\x00" not in source and ".." not in source.split("/"):
        plain = str(PurePosixPath("/", *source.split("/")))
        if plain == source:
            return
        raise InvalidInput(
            f"source {source!r} is not written as nodes report it", hint=f"write {plain!r}", field="source"
        )
    raise InvalidInput(
        f"source {source!r} is neither an absolute path nor a hub reference",
        hint="write a path as nodes see it, such as /models/chat.gguf, or hf:ORG/REPO@REVISION[:FILE]",
        field="source",
        allowed=("/ABSOLUTE/PATH", "hf:ORG/REPO@REVISION[:FILE]"),
    )


def _check_texts(profile: Profile) -> None:
    """What stands in tables and sentences is printable and of a length that can be read."""
    texts = {name: getattr(profile, name) for name in ("engine_version", "variant", "device_class", "fabric")}
    texts["class"] = texts.pop("device_class")
    for label, value in profile.node_selector.items():
        texts |= {f"node_selector.{label[:MAX_TEXT]}": label + value}
    for name, text in texts.items():
        if text is None or (text.isprintable() and 0 < len(text) <= MAX_TEXT):
            continue
        raise InvalidInput(f"profile.{name} has 1 to {MAX_TEXT} printable characters", field=f"profile.{name}")


def _check_lost_after(model: Model) -> None:
    seconds = model.lost_after
    if seconds is None or seconds == NEVER or LOST_AFTER_MIN_S <= seconds < float("inf"):
        return
    raise InvalidInput(
        f"lost_after must be {LOST_AFTER_MIN_S:g} or more seconds, or {NEVER}",
        hint="a shorter silence is no sign that a node is gone",
        field="lost_after",
        allowed=(f"{LOST_AFTER_MIN_S:g} or more", NEVER),
    )


def _check_numbers(profile: Profile) -> None:
    least = (("nodes", 1), ("devices_per_node", 0), ("context", 1), ("slots", 1))
    for name, lowest in least:
        value = getattr(profile, name)
        if value is not None and value < lowest:
            raise InvalidInput(f"profile.{name} must be at least {lowest}", field=f"profile.{name}")
    for name in ("cores", "memory_gb"):
        value = getattr(profile, name)
        if value is not None and not 0 < value < float("inf"):
            raise InvalidInput(f"profile.{name} must be more than 0", field=f"profile.{name}")


def _check_engine(model: Model) -> None:
    if model.profile.engine is EngineKind.FAKE:
        return  # fake nodes start nothing, so that they take any profile
    try:
        adapter(model.profile.engine).check(model.profile, model.role)
    except InvalidInput as error:
        # Adapters know a profile's fields, not where in a body the profile stands.
        field = f"profile.{error.field}" if error.field else "profile"
        raise InvalidInput(error.message, hint=error.hint, field=field, allowed=error.allowed) from error


def _merged(profile: Profile, change: dict[str, Any]) -> Profile:
    before: dict[str, Any] = msgspec.to_builtins(profile)
    return strict.convert(Profile, before | change, at="profile")


def _fields(change: ChangeModel) -> dict[str, Any]:
    return {name: getattr(change, name) for name in change.__struct_fields__}
