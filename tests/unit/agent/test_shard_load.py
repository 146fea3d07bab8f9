import os
import subprocess
import sys
import time

import pytest
from msgspec.structs import replace

from llmgw.agent.process_group import Identity
from llmgw.agent.shard_load import ShardMeter, since_walk
from llmgw.hardware import proc, process_memory
from llmgw.hardware.cgroup import ControlGroup, unified_mount
from llmgw.hardware.mounts import read_mounts
from llmgw.hardware.process_memory import Resident
from llmgw.schema.report import MemoryKind

ENGINE = """
import os, sys
child = os.fork()
held = bytearray(30_000_000)
print("on", flush=True)
while True:
    pass
"""


@pytest.fixture(params=["control group", "session"])
def engine(request):
    """A group of two processes that never rest, with a control group of its own or without."""
    child = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.stdin.readline()\n{ENGINE}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    mount = unified_mount(read_mounts()) if request.param == "control group" else None
    group = ControlGroup.create(mount, f"test-{child.pid}-{time.monotonic_ns()}") if mount else None
    try:
        if request.param == "control group" and (group is None or not group.add(child.pid)):
            pytest.skip("no writable cgroup2 mount here")
        child.stdin.write(b"go\n")
        child.stdin.flush()
        for _ in range(2):
            child.stdout.readline()
        stat = proc.read_stat(child.pid)
        yield Identity(
            name="r1.0",
            pid=child.pid,
            start_ticks=stat.start_ticks,
            boot_id=proc.boot_id(),
            cgroup=group.path if group else None,
        )
    finally:
        os.killpg(child.pid, 9)
        child.communicate()
        while group is not None and not group.remove():
            time.sleep(0.01)


def until(meter, identity, found):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        (load,) = meter.measure({"r1.0": identity})
        if found(load):
            return load
        time.sleep(0.3)
    raise AssertionError(f"last seen: {load}")


def test_a_groups_cores_and_memory_are_measured(engine):
    meter = ShardMeter()
    (first,) = meter.measure({"r1.0": engine})
    assert first.cpu_cores is None
    assert first.memory_kind is MemoryKind.PSS
    assert first.memory_anonymous_bytes > 55_000_000
    assert first.memory_bytes > first.memory_anonymous_bytes
    # On a busy machine time passes between the clock's reading and the group's: one look may be far off.
    busy = until(meter, engine, lambda load: load.cpu_cores and load.cpu_cores < 2.3)
    assert 55_000_000 < busy.memory_anonymous_bytes < 120_000_000


def test_pss_that_may_not_be_read_leaves_rss(engine, monkeypatch):
    monkeypatch.setattr(process_memory, "read_pss", lambda pid: None)
    (load,) = ShardMeter().measure({"r1.0": engine})
    assert load.memory_kind is MemoryKind.RSS
    assert load.memory_bytes > load.memory_anonymous_bytes > 55_000_000


def test_a_group_that_is_gone_has_unknown_use(engine):
    gone = replace(engine, pid=2**30, cgroup=None)
    (load,) = ShardMeter().measure({"r1.0": gone})
    assert (load.cpu_cores, load.memory_bytes, load.memory_kind) == (None, None, None)


def test_an_engine_that_is_no_longer_asked_for_is_forgotten(engine):
    meter = ShardMeter()
    meter.measure({"r1.0": engine})
    assert meter.measure({}) == ()
    (again,) = meter.measure({"r1.0": engine})
    assert again.cpu_cores is None


def test_between_two_walks_memory_follows_rss_less_what_was_shared():
    then, pss = Resident(total_bytes=100, anonymous_bytes=60), Resident(total_bytes=70, anonymous_bytes=55)
    now = Resident(total_bytes=130, anonymous_bytes=80)
    assert since_walk(then, pss, now) == Resident(total_bytes=100, anonymous_bytes=75)
    assert since_walk(then, pss, Resident(total_bytes=10, anonymous_bytes=None)) == Resident(
        total_bytes=0, anonymous_bytes=None
    )
