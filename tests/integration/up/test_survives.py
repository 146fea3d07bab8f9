"""Processes are killed with -9 under traffic, one after the other. What a client may notice is written at each test."""

import http.client
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest

MODEL = "counting"
COUNTED = "".join(f" {number}" for number in range(1, 61))


@pytest.fixture(scope="module")
def up(new_up: Callable, counting_model: Path) -> Iterator:
    one = new_up()
    one.up("--model", str(counting_model), "--name", MODEL)
    return one


@pytest.fixture
def ask(up) -> Iterator[Callable[[], None]]:
    """One request of each kind, checked to the last token."""
    with openai.OpenAI(base_url=up.base_url, api_key=up.key, max_retries=0) as client:

        def request() -> None:
            question = [{"role": "user", "content": "count"}]
            plain = client.chat.completions.create(model=MODEL, messages=question)
            assert plain.choices[0].message.content == COUNTED
            stream = client.chat.completions.create(model=MODEL, messages=question, stream=True)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
            assert text == COUNTED

        yield request


def _restarts(up):
    return [row["restarts"] for row in up.ctl("replica", "list")["replicas"]]


def test_a_killed_server_comes_back_and_no_request_fails(up, ask, traffic):
    engines, before = up.engine_pids(), up.pid("server")
    with traffic(ask) as flow:
        os.kill(before, signal.SIGKILL)
        killed = time.monotonic()
        flow.more(30)
        up.wait_for(lambda: up.pid("server") != before, timeout=20, what="the server is started again")
        up.wait_for(lambda: _status_is_true(up), timeout=20, what="status is true again")
        took = time.monotonic() - killed
        flow.more(30)
    assert flow.failures == []
    assert up.engine_pids() == engines
    assert took < 15, f"status was true again after {took:.1f} s"


def test_a_killed_agent_comes_back_adopts_and_no_request_fails(up, ask, traffic):
    engines, before, restarts = up.engine_pids(), up.pid("agent"), _restarts(up)
    with traffic(ask) as flow:
        os.kill(before, signal.SIGKILL)
        flow.more(30)
        up.wait_for(lambda: up.pid("agent") != before, timeout=20, what="the agent is started again")
        up.wait_for(lambda: _status_is_true(up), timeout=20, what="status is true again")
        flow.more(60)
    assert flow.failures == []
    assert up.engine_pids() == engines
    assert all(_runs(pid) for pid in engines.values())
    assert _restarts(up) == restarts


def test_a_killed_worker_breaks_only_its_own_answers(up, traffic):
    def fresh_connection() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", up.gateway_port, timeout=30)
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "count"}]})
        headers = {"Authorization": f"Bearer {up.key}", "Content-Type": "application/json"}
        try:
            connection.request("POST", "/v1/chat/completions", body=body, headers=headers)
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        assert answer["choices"][0]["message"]["content"] == COUNTED

    workers = _workers(up)
    assert len(workers) == 2
    threads = 4
    with traffic(fresh_connection, threads=threads) as flow:
        os.kill(workers[0], signal.SIGKILL)
        killed = time.monotonic()
        up.wait_for(lambda: len(set(_workers(up)) - {workers[0]}) == 2, timeout=20, what="the worker is back")
        took = time.monotonic() - killed
        flow.more(60)
    assert len(flow.failures) <= threads, f"more than the open answers broke: {flow.failures}"
    assert all(at < killed + 1.0 for at, _ in flow.failures), f"failures after the kill: {flow.failures}"
    assert took < 10, f"the worker was back after {took:.1f} s"


def test_a_killed_engine_answers_again_and_the_restart_is_told(up, ask):
    (shard, pid), *_ = up.engine_pids().items()
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    up.wait_for(lambda: _succeeds(ask), timeout=60, what="the model answers again")
    took = time.monotonic() - killed
    (row,) = up.ctl("replica", "list")["replicas"]
    assert row["restart_count"] == 1
    assert row["restarts"][-1]["reason"]
    assert up.engine_pids()[shard] != pid
    assert not _runs(pid)
    engines = [line for line in up.processes().values() if shard in line]
    assert len(engines) == 1, engines
    assert took < 30, f"answered again after {took:.1f} s"


def _status_is_true(up) -> bool:
    done = up.llmgw("ctl", "-o", "json", "status", check=False)
    if done.returncode != 0:
        return False
    summary = json.loads(done.stdout)
    return (
        summary.get("leader") is not None
        and summary["nodes"]["ready"] == 1
        and summary["models"]["satisfied"] == summary["models"]["total"] == 1
    )


def _workers(up) -> list[int]:
    return [pid for pid, line in up.processes().items() if "llmgw.gateway.worker" in line or "gateway-worker" in line]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _succeeds(request: Callable[[], None]) -> bool:
    try:
        request()
    except openai.APIError:
        return False
    return True
