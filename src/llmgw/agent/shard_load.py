"""What each engine uses: cores busy and memory resident of its whole process group, adopted ones too."""

import time
from collections.abc import Iterable, Mapping

from llmgw.agent import process_group
from llmgw.agent.process_group import Identity
from llmgw.hardware import group_cpu, process_memory
from llmgw.hardware.cgroup import ControlGroup
from llmgw.hardware.group_cpu import GroupTimes
from llmgw.hardware.proc import ProcessStat
from llmgw.hardware.process_memory import Resident
from llmgw.schema.report import MemoryKind, ShardLoad
from llmgw.schema.value import Value

WALK_SHARE = 0.01
"""Share of the time that walks of page tables may take: they cost tens of milliseconds for each 100 GB."""
WALK_AGAIN_S = 60.0
"""Seconds after which a group is walked again, however long it takes; so is one that was not allowed."""


class Walk(Value, frozen=True, kw_only=True):
    """What a walk of a group's page tables told."""

    members: frozenset[tuple[int, int]]
    due_at: float
    """When to walk again, monotonic seconds."""
    rss: Resident
    pss: Resident | None
    """`None`: we may not look."""


class ShardMeter:
    """Looks at engines; each look tells of the time since the one before."""

    def __init__(self) -> None:
        self._before: dict[str, GroupTimes] = {}
        self._walks: dict[str, Walk] = {}

    def measure(self, groups: Mapping[str, Identity]) -> tuple[ShardLoad, ...]:
        """Look at the groups, by shard. Cores are unknown the first time, memory when nothing lives."""
        found = process_group.survey(groups.values())
        looks = {shard: _look(identity, found[identity.name]) for shard, identity in groups.items()}
        self._walks = {shard: walk for shard, walk in self._walks.items() if shard in groups}
        loads = tuple(self._load(shard, look) for shard, look in sorted(looks.items()))
        self._before = looks
        return loads

    def _load(self, shard: str, look: GroupTimes) -> ShardLoad:
        before = self._before.get(shard)
        memory, kind = self._memory(shard, look)
        return ShardLoad(
            shard=shard,
            cpu_cores=group_cpu.cores_busy(before, look) if before is not None else None,
            memory_bytes=memory.total_bytes if memory is not None else None,
            memory_anonymous_bytes=memory.anonymous_bytes if memory is not None else None,
            memory_kind=kind,
        )

    def _memory(self, shard: str, look: GroupTimes) -> tuple[Resident | None, MemoryKind | None]:
        pids = [stat.pid for stat in look.processes.values() if not stat.gone]
        rss = _sum(process_memory.read_rss(pid) for pid in pids)
        if rss is None:
            return None, None
        walk = self._walks.get(shard)
        if walk is None or walk.members != look.processes.keys() or look.at >= walk.due_at:
            walk = self._walks[shard] = _walk(look, pids, rss)
        if walk.pss is None:
            return rss, MemoryKind.RSS
        return since_walk(walk.rss, walk.pss, rss), MemoryKind.PSS


def since_walk(rss_then: Resident, pss_then: Resident, rss: Resident) -> Resident:
    """Give PSS between two walks: what RSS counts more than once stays as it was, the rest follows RSS."""
    shared = max(0, rss_then.total_bytes - pss_then.total_bytes)
    return Resident(
        total_bytes=max(0, rss.total_bytes - shared),
        anonymous_bytes=_anonymous_since(rss_then.anonymous_bytes, pss_then.anonymous_bytes, rss.anonymous_bytes),
    )


def _anonymous_since(rss_then: int | None, pss_then: int | None, rss: int | None) -> int | None:
    if rss_then is None or pss_then is None or rss is None:
        return None
    return max(0, rss - max(0, rss_then - pss_then))


def _look(identity: Identity, stats: Iterable[ProcessStat]) -> GroupTimes:
    charged = ControlGroup(identity.cgroup).charged_s() if identity.cgroup is not None else None
    return group_cpu.look(time.monotonic(), stats, charged)


def _walk(look: GroupTimes, pids: list[int], rss: Resident) -> Walk:
    began = time.monotonic()
    parts = [process_memory.read_pss(pid) for pid in pids]
    cost_s = time.monotonic() - began
    pss = _sum(parts) if all(parts) else None
    pause_s = min(cost_s / WALK_SHARE, WALK_AGAIN_S) if pss is not None else WALK_AGAIN_S
    return Walk(members=frozenset(look.processes), due_at=look.at + pause_s, rss=rss, pss=pss)


def _sum(parts: Iterable[Resident | None]) -> Resident | None:
    known = [part for part in parts if part is not None]
    return process_memory.summed(known) if known else None
