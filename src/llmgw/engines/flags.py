"""Typed engine flags from an allow list: what an operator may set on an engine, and to what."""

import difflib
import math
from collections.abc import Mapping
from enum import StrEnum

from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Role
from llmgw.schema.value import Value

FlagValue = bool | int | float | str


class FlagKind(StrEnum):
    """Types of flags."""

    BOOL = "true or false"
    INT = "a whole number"
    FLOAT = "a number"
    CHOICE = "one of its choices"


class Flag(Value, frozen=True, kw_only=True):
    """One flag: its type, its bounds, and where its value goes."""

    name: str
    kind: FlagKind
    target: str
    """Attribute (dotted) or option of the engine."""
    help: str
    low: float = -math.inf
    high: float = math.inf
    choices: Mapping[str, str] = {}
    """Allowed words, with what the engine calls each."""
    enum: str | None = None
    """Enumeration of the engine that the choices are members of."""
    roles: frozenset[Role] = frozenset(Role)

    @property
    def allowed(self) -> tuple[str, ...]:
        """Allowed values, for people."""
        if self.kind is FlagKind.BOOL:
            return ("true", "false")
        if self.kind is FlagKind.CHOICE:
            return tuple(self.choices)
        return (span(self.low, self.high),)


def span(low: float, high: float) -> str:
    """Write bounds for people: whole numbers without an exponent."""
    ends = (str(int(end)) if math.isfinite(end) and end == int(end) else f"{end:g}" for end in (low, high))
    return " to ".join(ends)


def parse(flags: Mapping[str, str], table: Mapping[str, Flag], role: Role) -> dict[str, FlagValue]:
    """Read flags by the table. Raises `InvalidInput` naming the flag, the nearest one and what is allowed."""
    known = {name: flag for name, flag in table.items() if role in flag.roles}
    return {name: parse_one(_find(name, known, table, role), text) for name, text in flags.items()}


def parse_one(flag: Flag, text: str) -> FlagValue:
    """Read one value; a choice becomes the engine's word for it. Raises `InvalidInput`."""
    value = _read(flag, text)
    if value is not None:
        return value
    raise InvalidInput(
        f"flag {flag.name} = {text!r} is not {flag.kind.value} within its limits",
        hint=f"{flag.name}: {flag.help}; allowed: {', '.join(flag.allowed)}",
        field=f"flags.{flag.name}",
        allowed=flag.allowed,
    )


def _find(name: str, known: Mapping[str, Flag], table: Mapping[str, Flag], role: Role) -> Flag:
    flag = known.get(name)
    if flag is not None:
        return flag
    names = tuple(sorted(known))
    listed = f"flags of this engine: {', '.join(names)}"
    if name in table:
        raise InvalidInput(
            f"flag {name} has no meaning for a model in role {role.value}",
            hint=listed,
            field=f"flags.{name}",
            allowed=names,
        )
    near = difflib.get_close_matches(name, names, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    raise InvalidInput(f"no flag {name!r}", hint=guess + listed, field=f"flags.{name}", allowed=names)


def _read(flag: Flag, text: str) -> FlagValue | None:
    match flag.kind:
        case FlagKind.BOOL:
            return {"true": True, "false": False}.get(text)
        case FlagKind.CHOICE:
            return flag.choices.get(text)
        case FlagKind.INT:
            number = _number(int, text)
        case FlagKind.FLOAT:
            number = _number(float, text)
    # Written so that NaN, which compares with nothing, is refused too.
    return number if number is not None and flag.low <= number <= flag.high else None


def _number(kind: type[int] | type[float], text: str) -> float | None:
    try:
        return kind(text)
    except ValueError:
        return None
