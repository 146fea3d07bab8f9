"""An hour kept in memory: columns of numbers on an even grid of time. Old values give way to new ones."""

import math
from array import array
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

STEP_S = 15
"""Seconds between two points; agents measure each five."""
SLOTS = 3600 // STEP_S

Points = tuple[tuple[int, float | None], ...]

K = TypeVar("K", bound=Hashable)


def slot_of(unix_s: float) -> int:
    """Give the place of a moment on the grid."""
    return math.floor(unix_s / STEP_S)


class Hour(Generic[K]):
    """The last hour of at most `most` columns. One takes 8 bytes a point, and leaves an hour after its last value."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._slots = array("q", [-1]) * SLOTS
        self._columns: dict[K, array[float]] = {}
        self._last: dict[K, int] = {}

    def put(self, slot: int, values: Mapping[K, float | None]) -> None:
        """Note what was measured at `slot`. The last word of a slot stands; what is unknown says nothing."""
        place = slot % SLOTS
        if self._slots[place] != slot:
            self._begin(place, slot)
        for key, value in values.items():
            if value is None or (key not in self._columns and len(self._columns) >= self._most):
                continue
            if key not in self._columns:
                self._columns[key] = array("d", [math.nan]) * SLOTS
            self._columns[key][place] = value
            self._last[key] = slot

    def columns(self) -> tuple[K, ...]:
        """Name the columns."""
        return tuple(self._columns)

    def points(self, key: K, newest: int) -> Points:
        """Give the hour that ends with the slot `newest`; nothing when no value in it is known."""
        if key not in self._columns:
            return ()
        found = tuple((slot * STEP_S, self._value(key, slot)) for slot in range(newest - SLOTS + 1, newest + 1))
        return found if any(value is not None for _, value in found) else ()

    def _value(self, key: K, slot: int) -> float | None:
        place = slot % SLOTS
        if self._slots[place] != slot:
            return None
        value = self._columns[key][place]
        return None if math.isnan(value) else value

    def _begin(self, place: int, slot: int) -> None:
        self._slots[place] = slot
        for key in [key for key, last in self._last.items() if abs(slot - last) >= SLOTS]:
            del self._columns[key], self._last[key]
        for column in self._columns.values():
            column[place] = math.nan
