"""Compare the load that an agent measures with what the kernel says by other ways.

    .venv/bin/python -m benchmarks.load_agreement                # about 40 s

Starts busy loops in one process group, a real llama.cpp that generates in another, and a process that holds a known
amount of memory; measures them as an agent does, and beside it

- the machine's CPU by the idle time of /proc/uptime (the agent: the busy time of /proc/stat),
- cores of a group by the processes' CPU clocks, in nanoseconds (the agent: ticks of /proc/<pid>/stat, or the counter
  of the group's control group),
- memory of a group by adding up the mappings of /proc/<pid>/smaps (the agent: smaps_rollup),
- the node's used memory, while a known amount is taken, by the kinds of pages in /proc/vmstat (the agent: meminfo).

Prints a table and fails when a figure is off by more than 10 %. Then times a look at 30 engines.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from llmgw.agent.load import LoadMeter
from llmgw.agent.process_group import Identity
from llmgw.agent.shard_load import ShardMeter
from llmgw.engines.adapter import Started
from llmgw.hardware import group_cpu, proc
from llmgw.hardware.cgroup import ControlGroup, unified_mount
from llmgw.hardware.mounts import read_mounts
from llmgw.schema.report import Load
from llmgw.testing.engine_process import EngineProcess, shard_for
from llmgw.testing.gguf import write_counting_model

MOST_OFF = 0.10
MIB = 1024**2
_LOOPS = """
import os, sys
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        break
while True:
    pass
"""
_HOLDER = """
import sys
held = bytearray(int(sys.argv[1]))
for at in range(0, len(held), 4096):
    held[at] = 1
print("held", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure, measured both ways."""

    what: str
    agent: float
    other: float
    unit: str

    @property
    def off(self) -> float:
        """By which share the agent's figure is off."""
        return abs(self.agent - self.other) / max(abs(self.other), 1e-9)


@dataclass(frozen=True, slots=True)
class OtherWay:
    """One look by other ways."""

    at: float
    idle_s: float
    cpu_s: dict[str, float]


def main() -> int:
    """Measure, print, and give 1 when a figure is off."""
    options = _options()
    figures = asyncio.run(_measure(options))
    print(f"| {'what':<34} | {'agent':>10} | {'other way':>10} | unit  | off by |")
    print(f"|{'-' * 36}|{'-' * 12}|{'-' * 12}|-------|--------|")
    for one in figures:
        print(f"| {one.what:<34} | {one.agent:>10.2f} | {one.other:>10.2f} | {one.unit:<5} | {one.off:>6.1%} |")
    _time_looks(options.engines)
    return int(any(one.off > MOST_OFF for one in figures))


async def _measure(options: argparse.Namespace) -> list[Figure]:
    at_rest = await _at_rest(options.seconds / 3)
    with contextlib.ExitStack() as stack:
        loops = stack.enter_context(_process(_LOOPS, str(options.loops)))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        write_counting_model(folder / "m.gguf", last=2000, zero_layers=options.layers, ff_width=8192)
        engine = stack.enter_context(EngineProcess(shard_for(folder / "m.gguf")))
        started = await engine.started()
        groups = {"loops": _identity(loops.pid), "engine": _identity(engine.process.pid)}
        enclosed = stack.enter_context(_enclosed(engine.process.pid))
        if enclosed is not None:
            groups["engine, control group"] = enclosed
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(_keep_busy(session, started, engine.shard.key))
            try:
                return [at_rest, *await _compare(groups, options.seconds, options.hold_mib * MIB)]
            finally:
                asking.cancel()


async def _at_rest(seconds: float) -> Figure:
    """Measure the node before anything is started: what others do on it."""
    meter = LoadMeter(dict, period_s=seconds)
    await meter.look()
    before = _other_way({})
    await asyncio.sleep(seconds)
    await meter.look()
    after, load = _other_way({}), meter.last()
    assert load is not None  # noqa: S101 - it was measured a moment ago
    return replace(next(_cpu(load, before, after, {})), what="node, CPU before the loops")


async def _compare(groups: dict[str, Identity], seconds: float, hold: int) -> list[Figure]:
    meter = LoadMeter(lambda: groups, period_s=seconds)
    await asyncio.sleep(2.0)  # the first requests are at the engine
    await meter.look()
    before = _other_way(groups)
    await asyncio.sleep(seconds)
    await meter.look()
    after, load = _other_way(groups), meter.last()
    assert load is not None  # noqa: S101 - it was measured a moment ago
    figures = list(_cpu(load, before, after, groups))
    figures += [_memory(load, name, identity) for name, identity in groups.items()]
    return [*figures, await _grown(meter, hold)]


async def _grown(meter: LoadMeter, hold: int) -> Figure:
    """Compare by how much the node's used memory grows when `hold` bytes are taken."""
    await meter.look()
    before, pages_before = meter.last(), _pages_for_good()
    with _process(_HOLDER, str(hold)) as holder:
        assert holder.stdout is not None  # noqa: S101 - a pipe was asked for
        await asyncio.to_thread(holder.stdout.readline)
        await meter.look()
        after, pages = meter.last(), _pages_for_good()
    assert before is not None  # noqa: S101 - it was measured a moment ago
    assert after is not None  # noqa: S101 - likewise
    grown = (after.memory_used_bytes or 0) - (before.memory_used_bytes or 0)
    other = (pages - pages_before) * os.sysconf("SC_PAGE_SIZE")
    return Figure(f"node, memory used: {hold // MIB} MiB taken", grown / MIB, other / MIB, "MiB")


def _pages_for_good() -> int:
    """Count the pages that the kernel cannot take back, kind by kind."""
    pages = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return sum(
        int(pages[name]) for name in ("nr_anon_pages", "nr_shmem", "nr_slab_unreclaimable", "nr_page_table_pages")
    )


def _cpu(load: Load, before: OtherWay, after: OtherWay, groups: dict[str, Identity]) -> Iterator[Figure]:
    span_s, cores = after.at - before.at, os.cpu_count() or 1
    idle = (after.idle_s - before.idle_s) / (span_s * cores)
    yield Figure("node, CPU", load.cpu_percent or 0.0, 100.0 * (1.0 - idle), "%")
    for name in groups:
        used = load.of(name)
        other = (after.cpu_s[name] - before.cpu_s[name]) / span_s
        yield Figure(f"{name}: cores", used.cpu_cores or 0.0 if used is not None else 0.0, other, "cores")


def _memory(load: Load, name: str, identity: Identity) -> Figure:
    used = load.of(name)
    told = used.memory_bytes or 0 if used is not None else 0
    return Figure(f"{name}: memory", told / MIB, sum(map(_pss, _pids(identity))) / MIB, "MiB")


def _other_way(groups: dict[str, Identity]) -> OtherWay:
    waiting = int(Path("/proc/stat").read_text().split(maxsplit=6)[5])  # for disks: idle, but not to /proc/uptime
    idle_s = float(Path("/proc/uptime").read_text().split()[1]) + waiting / group_cpu.TICKS_PER_S
    cpu_s = {name: sum(map(_cpu_clock, _pids(identity))) for name, identity in groups.items()}
    return OtherWay(at=time.monotonic(), idle_s=idle_s, cpu_s=cpu_s)


def _pids(identity: Identity) -> list[int]:
    return [stat.pid for stat in proc.processes() if stat.session == identity.pid and not stat.gone]


def _cpu_clock(pid: int) -> float:
    """Read a process's CPU clock (`clock_getcpuclockid(3)`): its scheduler's nanoseconds, not ticks."""
    return time.clock_gettime((~pid << 3) | 2)


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


async def _keep_busy(session: aiohttp.ClientSession, started: Started, key: str) -> None:
    """Have the engine generate all the time."""
    url, headers = f"{started.endpoint}/v1/completions", {"authorization": f"Bearer {key}"}
    while True:
        body = {"model": "tiny", "prompt": " 1", "max_tokens": 1500}
        async with session.post(url, json=body, headers=headers) as answer:
            await answer.read()


def _time_looks(engines: int) -> None:
    with contextlib.ExitStack() as stack:
        sleepers = [stack.enter_context(_process("import time; time.sleep(600)")) for _ in range(engines)]
        groups = {f"r{index}.0": _identity(child.pid) for index, child in enumerate(sleepers)}
        time.sleep(2.0)
        meter, took, used = ShardMeter(), [], []
        for _ in range(10):
            began, cpu = time.monotonic(), time.thread_time()
            meter.measure(groups)
            took.append(time.monotonic() - began)
            used.append(time.thread_time() - cpu)
        count = sum(1 for _ in proc.processes())
        print(
            f"\na look at {engines} engines among {count} processes: {1000 * statistics.median(used):.1f} ms of CPU "
            f"(median of 10), {1000 * max(took):.1f} ms at the longest"
        )


@contextlib.contextmanager
def _process(program: str, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    child = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


@contextlib.contextmanager
def _enclosed(pid: int) -> Iterator[Identity | None]:
    """Put a session's processes into a control group, where the machine lets us."""
    mount = unified_mount(read_mounts())
    group = ControlGroup.create(mount, f"load-agreement-{os.getpid()}") if mount is not None else None
    if group is None:
        yield None
        return
    try:
        inside = [group.add(member) for member in _pids(_identity(pid))]
        yield _identity(pid, cgroup=group.path) if all(inside) else None
    finally:
        group.kill()
        while not group.remove():
            time.sleep(0.05)


def _identity(pid: int, *, cgroup: str | None = None) -> Identity:
    stat = proc.read_stat(pid)
    assert stat is not None  # noqa: S101 - our child, not waited for yet
    name = f"{pid}" if cgroup is None else f"{pid} in {cgroup}"
    return Identity(name=name, pid=pid, start_ticks=stat.start_ticks, boot_id=proc.boot_id(), cgroup=cgroup)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=1, help="busy loops")
    parser.add_argument("--seconds", type=float, default=15.0, help="between two looks")
    parser.add_argument("--layers", type=int, default=24, help="of the model: more make it slower and larger")
    parser.add_argument("--hold-mib", type=int, default=2048, help="memory to take")
    parser.add_argument("--engines", type=int, default=30, help="for the time a look takes")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
