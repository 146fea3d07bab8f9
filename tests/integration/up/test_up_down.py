"""Starting, finding, stopping and taking over: `llmgw up` and `llmgw down` as a stranger uses them."""

import json
import os
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import openai

from llmgw.up.port import is_free

MODEL = "counting"


def _answers(up) -> bool:
    with openai.OpenAI(base_url=up.base_url, api_key=up.key, max_retries=0) as client:
        answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "count"}])
    return answer.choices[0].message.content.startswith(" 1 2 3 ")


def test_down_leaves_nothing_and_up_serves_the_same_with_the_same_key(new_up: Callable, counting_model: Path):
    up = new_up()
    up.up("--model", str(counting_model), "--name", MODEL)
    key, engines = up.key, up.engine_pids()
    up.all_processes()
    assert stat.S_IMODE((up.root / "data" / "credentials.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((up.root / "ctl.toml").stat().st_mode) == 0o600
    ports = _ports(up)

    assert "nothing is left running" in up.down().stdout
    assert up.processes() == {}
    assert all(is_free(port) for port in ports)
    assert "nothing was running" in up.down().stdout

    up.up()  # no arguments: it serves what it served before
    assert up.key == key
    assert set(up.engine_pids()) & set(engines) == set(engines), "the replica's id stays"
    assert _answers(up)


def test_a_second_up_finds_the_first_and_changes_nothing(new_up: Callable, counting_model: Path):
    up = new_up()
    up.up("--model", str(counting_model), "--name", MODEL)
    before = up.all_processes()

    again = up.up("--model", str(counting_model), "--name", MODEL)
    assert "already runs" in again.stderr
    assert up.key in again.stdout

    other = up.up("--model", str(counting_model), "--name", "another", check=False)
    assert other.returncode == 1
    assert "ctl model serve" in other.stderr
    assert up.processes() == before


def test_a_killed_supervisor_is_followed_by_one_that_adopts(new_up: Callable, counting_model: Path):
    up = new_up()
    up.up("--model", str(counting_model), "--name", MODEL)
    supervisor = up.pid("supervisor")
    up.all_processes()
    os.kill(supervisor, signal.SIGKILL)
    up.wait_for(lambda: supervisor not in up.processes(), timeout=10, what="the supervisor is gone")
    before = up.processes()
    assert _answers(up), "what it started still serves"

    again = up.up()
    assert "takes over" in again.stderr
    after = up.processes()
    assert set(before) < set(after)
    assert len(after) == len(before) + 1, "one new supervisor and no second copy of anything"
    up.down()
    assert up.processes() == {}


def test_down_ends_everything_even_without_supervisor_and_agent(new_up: Callable, counting_model: Path):
    up = new_up()
    up.up("--model", str(counting_model), "--name", MODEL)
    for name in ("supervisor", "agent"):
        os.kill(up.pid(name), signal.SIGKILL)
    up.down()
    assert up.processes() == {}


def test_a_taken_port_is_named_with_its_holder(new_up: Callable):
    up = new_up()
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", up.gateway_port))
        squatter.listen(1)
        done = up.up(check=False)
    assert done.returncode == 1
    assert f"port {up.gateway_port} for the gateway is taken" in done.stderr
    assert f"pid {os.getpid()}" in done.stderr
    assert "--gateway-port" in done.stderr
    assert up.processes() == {}


def test_weights_that_are_not_there_are_named_before_anything_starts(new_up: Callable):
    up = new_up()
    done = up.up("--model", "/nowhere/model.gguf", check=False)
    assert done.returncode == 1
    assert "no weights at /nowhere/model.gguf" in done.stderr
    assert up.processes() == {}


def _ports(up) -> list[int]:
    state = json.loads((up.root / "data" / "up.json").read_text())
    return [state[name] for name in ("gateway_port", "api_port", "agent_port", "door_port")]
