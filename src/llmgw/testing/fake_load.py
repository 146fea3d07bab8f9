"""A made-up load that looks like one: it swings slowly, each node in its own time, and busy engines show in it."""

import math
import zlib
from collections.abc import Iterable

from llmgw.schema.node import NodeFacts
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Load, MemoryKind, Pressure, ShardLoad, ShardReport

GIB = 1024**3
PERIOD_S = 120.0
IDLE_SHARE = 0.03
"""Of the processors, taken by what is on any machine."""
SYSTEM_SHARE = 0.06
"""Of the memory, likewise."""
ENGINE_CORES = 4.0
"""What a fake engine takes at its busiest, where there are as many."""


def fake_load(facts: NodeFacts, reports: Iterable[ShardReport], at: float) -> Load:
    """Give a node's load at `at` seconds. The same node and moment give the same."""
    cores = facts.host.cores_usable or 1.0
    ready = [one.id for one in reports if one.phase is ShardPhase.READY]
    most = min(ENGINE_CORES, 0.9 * cores / max(1, len(ready)))
    shards = tuple(_engine(shard, most, at) for shard in ready)
    busy = cores * IDLE_SHARE * (1.0 + _swing(facts.hostname, at)) + sum(one.cpu_cores or 0.0 for one in shards)
    busy = min(busy, cores)
    total = facts.memory_bytes
    used = None
    if total is not None:
        used = min(total, round(total * SYSTEM_SHARE) + sum(one.memory_anonymous_bytes or 0 for one in shards))
    return Load(
        age_s=0.1,
        cpu_percent=round(100.0 * busy / cores, 1),
        load1=round(busy, 2),
        load5=round(0.9 * busy, 2),
        load15=round(0.8 * busy, 2),
        memory_used_bytes=used,
        memory_available_bytes=None if total is None or used is None else total - used,
        pressure=Pressure(cpu_percent=round(10.0 * (busy / cores) ** 4, 2), memory_percent=0.0, io_percent=0.0),
        shards=shards,
    )


def _engine(shard: str, most: float, at: float) -> ShardLoad:
    swing = _swing(shard, at)
    memory = round((2.0 + 0.2 * swing) * GIB)
    return ShardLoad(
        shard=shard,
        cpu_cores=round(most * (0.1 + 0.8 * swing), 3),
        memory_bytes=memory,
        memory_anonymous_bytes=memory // 2,
        memory_kind=MemoryKind.PSS,
    )


def _swing(name: str, at: float) -> float:
    """Give a number from 0 to 1 that goes up and down in a time and a place of the name's own."""
    seed = zlib.crc32(name.encode())
    period = PERIOD_S * (0.5 + (seed & 0xFF) / 0xFF)
    return 0.5 + 0.5 * math.sin(2 * math.pi * (at / period + (seed >> 8 & 0xFFFF) / 0xFFFF))
