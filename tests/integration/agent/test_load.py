"""What a real agent tells of real engines, its own and adopted ones."""

import signal

from llmgw.schema.link import Heartbeat
from llmgw.schema.report import MemoryKind


async def told(machine):
    """Give the first load that tells the engine's cores; an engine that rests uses none, which is known too."""
    shard, found = machine.shard().id, []

    def tells():
        loads = [one.load for one in machine.control.messages if isinstance(one, Heartbeat) and one.load is not None]
        found[:] = [load for load in loads if (used := load.of(shard)) is not None and used.cpu_cores is not None]
        return bool(found)

    await machine.control.until(tells, within_s=60)
    return found[0], found[0].of(shard)


async def test_an_engines_use_is_told_also_when_a_later_agent_adopted_it(machine):
    await machine.start()
    await machine.serve()
    load, used = await told(machine)
    assert load.cpu_percent is not None
    assert load.memory_used_bytes > used.memory_anonymous_bytes > 1_000_000
    assert used.memory_kind is MemoryKind.PSS
    await machine.end(signal.SIGKILL)
    await machine.start()
    _, adopted = await told(machine)
    assert 0.5 < adopted.memory_anonymous_bytes / used.memory_anonymous_bytes < 2
