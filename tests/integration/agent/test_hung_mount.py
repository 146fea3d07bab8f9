"""A folder of weights on a file server that is gone: a real mount that answers nothing any more."""

import asyncio
import os
from pathlib import Path

import pytest

from llmgw.schema.link import Heartbeat
from llmgw.schema.replica import ShardPhase
from llmgw.testing.gguf import write_counting_model
from llmgw.testing.hanging_mount import HangingMount

HEARTBEAT_S = 1.0
LATE_S = 3.0
"""Far above what a busy machine adds, far below what waiting for a look (3 s and 5 s) would cost each round."""

pytestmark = [
    pytest.mark.slow,  # the looks' own deadlines
    pytest.mark.skipif(
        os.geteuid() != 0 or not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs root and /dev/fuse"
    ),
]


@pytest.fixture
def nas(tmp_path):
    folder = tmp_path / "nas"
    folder.mkdir()
    try:
        with HangingMount(folder) as mount:
            yield mount
    except PermissionError:
        pytest.skip("this container may not mount")


@pytest.fixture
def looking_often(machine, nas):
    path = machine.root / "agent.toml"
    text = path.read_text().replace("weights_dirs = [", f'weights_dirs = ["{machine.root}/nas", ')
    path.write_text(text + "\ndiscover_s = 0.2\n")
    return machine


def threads(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("Threads:")).split()[1])


def storage(machine):
    return {Path(one.mount).name: one for one in machine.control.facts.storage or ()}.get("nas")


async def longest_silence(control, seconds):
    """Watch for a while, and give the longest time between two heartbeats."""
    clock = asyncio.get_running_loop().time
    end, last, longest = clock() + seconds, clock(), 0.0
    seen = sum(isinstance(one, Heartbeat) for one in control.messages)
    while clock() < end:
        await asyncio.sleep(0.02)
        now = sum(isinstance(one, Heartbeat) for one in control.messages)
        if now > seen:
            seen, last = now, clock()
        longest = max(longest, clock() - last)
    return longest


async def test_a_mount_that_hangs_delays_no_heartbeat_and_piles_up_no_threads(looking_often, nas):
    machine = looking_often
    await machine.start()
    assert storage(machine).problem is None
    assert (storage(machine).shared, storage(machine).free_bytes) == (True, 400 * 4096)

    nas.hang()
    machine.control.order([machine.shard()], watch_paths=[f"{machine.root}/nas/models/x.gguf"])
    await machine.control.until(lambda: storage(machine).problem is not None)
    assert storage(machine).problem.endswith("nas does not answer")
    assert storage(machine).free_bytes is None
    before = threads(machine.agent.pid)
    silence = await longest_silence(machine.control, 6 * HEARTBEAT_S)
    assert silence < LATE_S, f"{silence:.1f} s without a heartbeat"
    assert threads(machine.agent.pid) <= before + 4, "each look that hangs costs one thread, and none a round"

    # Everything else goes on: other folders are looked through, models start.
    write_counting_model(machine.root / "weights" / "new.gguf")
    await machine.control.until(lambda: len(machine.control.facts.weights) == 2)
    await machine.until(ShardPhase.READY)
    assert machine.control.facts.weights_folders[0].problems[0].endswith("does not answer: what was seen last is shown")

    nas.recover()
    await machine.control.until(lambda: storage(machine).problem is None)
    await machine.control.until(lambda: machine.control.facts.weights_folders[0].problems == ())


async def test_an_agent_starts_beside_a_mount_that_hangs_already(looking_often, nas):
    machine = looking_often
    nas.hang()
    await machine.start()
    await machine.control.until(lambda: storage(machine) is not None and storage(machine).problem is not None)
    assert [Path(weights.path).name for weights in machine.control.facts.weights] == ["counting.gguf"]
    assert await longest_silence(machine.control, 3 * HEARTBEAT_S) < LATE_S
