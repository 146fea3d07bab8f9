"""Processor time of a group of processes between two looks, those that began or ended meanwhile included."""

import os
from collections.abc import Iterable

from llmgw.hardware.proc import ProcessStat
from llmgw.schema.value import Value

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class GroupTimes(Value, frozen=True, kw_only=True):
    """One look at a group."""

    at: float
    """Monotonic seconds."""
    processes: dict[tuple[int, int], ProcessStat]
    """Members by pid and start, as pids are reused. Zombies too: their parents were not charged for them yet."""
    charged_s: float | None = None
    """What the kernel charged to the group's own control group, ended members included; `None` without one."""


def look(at: float, stats: Iterable[ProcessStat], charged_s: float | None = None) -> GroupTimes:
    """Make a look of what was read."""
    processes = {(stat.pid, stat.start_ticks): stat for stat in stats}
    return GroupTimes(at=at, processes=processes, charged_s=charged_s)


def cores_busy(before: GroupTimes, after: GroupTimes) -> float | None:
    """Give the cores that were busy on average between two looks; `None` when they cannot be told.

    A control group's own counter misses nothing. Without one, the last moments of a process whose parent is no member
    are missed: nobody was told of them.
    """
    span_s = after.at - before.at
    if span_s <= 0:
        return None
    if before.charged_s is not None and after.charged_s is not None and after.charged_s >= before.charged_s:
        used_s = after.charged_s - before.charged_s
    elif before.processes:
        used_s = _ticks_used(before.processes, after.processes) / TICKS_PER_S
    else:
        return None
    return round(used_s / span_s, 3)


def _ticks_used(before: dict[tuple[int, int], ProcessStat], after: dict[tuple[int, int], ProcessStat]) -> int:
    used = 0
    counted = _counted_of_ended(before, after)
    for key, stat in after.items():
        earlier = before.get(key)
        if earlier is None:
            used += stat.cpu_ticks
            continue
        used += max(0, stat.own_ticks - earlier.own_ticks)
        # A parent is charged a waited-for child's whole life, of which part was counted in earlier spans.
        used += max(0, stat.waited_ticks - earlier.waited_ticks - counted.get(stat.pid, 0))
    return used


def _counted_of_ended(
    before: dict[tuple[int, int], ProcessStat], after: dict[tuple[int, int], ProcessStat]
) -> dict[int, int]:
    """Give by parent what was already counted of members that have ended since."""
    counted: dict[int, int] = {}
    for key, stat in before.items():
        if key not in after:
            counted[stat.parent] = counted.get(stat.parent, 0) + stat.cpu_ticks
    return counted
