"""Store, agent, gateway, engine and all their logs on one disk, which is full: clients notice nothing."""

import os
import signal
from pathlib import Path

import openai
import pytest

from llmgw.testing.small_disk import SmallDisk, missing

pytestmark = [pytest.mark.skipif(missing() is not None, reason=str(missing())), pytest.mark.slow]

MODEL = "counting"
COUNTED = "".join(f" {number}" for number in range(1, 61))
PARTS = ("supervisor", "server", "gateway")


@pytest.fixture
def disk(new_up):
    up = new_up()
    with SmallDisk(up.root / "data", mib=24) as disk:
        disk.up = up
        yield disk
        disk.free()
        up.down(check=False)


def status(up):
    return up.llmgw("ctl", "status").stdout


def is_well(told):
    return "control-1 leads" in told and "full" not in told


def is_alive(pid):
    return Path(f"/proc/{pid}").exists()


def test_a_machine_whose_one_disk_is_full_serves_on_and_is_as_before_once_there_is_room(disk, counting_model, traffic):
    up = disk.up
    up.up("--model", str(counting_model), "--name", MODEL)
    parts, engines = {name: up.pid(name) for name in PARTS}, up.engine_pids()
    with openai.OpenAI(base_url=up.base_url, api_key=up.key, max_retries=0) as client:

        def ask():
            answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "count"}])
            assert answer.choices[0].message.content == COUNTED

        with traffic(ask) as flow:
            disk.fill()
            up.wait_for(lambda: "the store's disk is full" in status(up), timeout=60, what="the words")
            flow.more(50)
            refused = up.llmgw("ctl", "key", "create", "somebody", check=False)
            assert refused.returncode == 1
            assert "the store's disk is full" in refused.stderr
            assert up.key in up.up().stdout
            # The agent is killed: the next one is started, and finds its engine.
            agent = up.pid("agent")
            os.kill(agent, signal.SIGKILL)
            up.wait_for(lambda: not is_alive(agent), timeout=10, what="the agent is gone")
            up.wait_for(lambda: len(up.processes()) == 8, timeout=60, what="another agent")
            flow.more(50)
            assert disk.left() == 0
            disk.free()
            up.wait_for(lambda: is_well(status(up)), timeout=60, what="room")
            up.wait_for(lambda: up.pid("agent") != agent, timeout=30, what="the state on disk")
            flow.more(20)
        assert flow.failures == []
        assert {name: up.pid(name) for name in PARTS} == parts
        up.wait_for(lambda: up.engine_pids() == engines, timeout=60, what="the same engine")
        up.wait_for(lambda: up.ctl("node", "list")["nodes"][0]["connected"], timeout=60, what="its agent")
        assert [row["restarts"] for row in up.ctl("replica", "list")["replicas"]] == [[]]
        up.llmgw("ctl", "key", "create", "somebody")
        for log in (up.root / "data" / "logs").glob("*.log"):
            assert "Traceback" not in log.read_text(errors="replace"), log
    disk.fill()
    up.down()
    assert up.processes() == {}


def test_a_start_on_a_full_disk_says_so(disk, counting_model):
    disk.fill()
    refused = disk.up.up("--model", str(counting_model), check=False)
    assert refused.returncode == 1
    assert f"the disk of {disk.up.root}/data is full" in refused.stderr
    assert disk.up.processes() == {}
