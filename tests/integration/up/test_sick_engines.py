"""A frozen engine, and a stranger on a dead engine's port: what a client and an operator see of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest

MODEL = "counting"
STRANGER = """
import http.server, sys

class Refuses(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(401)
        self.send_header("content-length", "0")
        self.end_headers()
    do_GET = do_POST
    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer.allow_reuse_address = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Refuses)
print("listens", flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def up(new_up: Callable, counting_model: Path) -> Iterator:
    one = new_up()
    one.up("--model", str(counting_model), "--name", MODEL)
    return one


@pytest.fixture
def client(up) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=up.base_url, api_key=up.key, max_retries=0, timeout=20) as client:
        yield client


def ask(client: openai.OpenAI) -> str:
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "count"}])
    return answer.choices[0].message.content


def answers(client: openai.OpenAI) -> bool:
    try:
        return ask(client).startswith(" 1 2 3")
    except openai.APIError:
        return False


def test_a_frozen_engine_is_found_within_30_s_and_replaced(up, client):
    ((shard, pid),) = up.engine_pids().items()
    os.kill(pid, signal.SIGSTOP)
    frozen = time.monotonic()
    up.wait_for(lambda: up.engine_pids()[shard] not in {None, pid}, timeout=60, what="another engine runs")
    assert time.monotonic() - frozen < 30
    up.wait_for(lambda: answers(client), timeout=60, what="the model answers again")
    (row,) = up.ctl("replica", "list")["replicas"]
    assert "stopped by a signal" in row["restarts"][-1]["reason"]


def test_a_strangers_401_never_reaches_a_client(up, client):
    (row,) = up.ctl("replica", "list")["replicas"]
    (shard,) = row["shards"]
    port = shard["endpoint"].rpartition(":")[2]
    agent = up.pid("agent")
    os.kill(agent, signal.SIGSTOP)  # so that the gateway still believes in the engine
    try:
        os.kill(shard["pid"], signal.SIGKILL)
        with subprocess.Popen([sys.executable, "-c", STRANGER, port], stdout=subprocess.PIPE) as stranger:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == b"listens\n"
            try:
                with pytest.raises(openai.APIStatusError) as refused:
                    ask(client)
            finally:
                stranger.kill()
    finally:
        os.kill(agent, signal.SIGCONT)
    assert refused.value.status_code in {502, 503}
    up.wait_for(lambda: answers(client), timeout=60, what="the model answers again")


@pytest.mark.slow
def test_an_engine_that_crashes_again_and_again_parks_its_model_until_it_is_unparked(up, client):
    (shard,) = up.engine_pids()
    replica = shard.partition(".")[0]

    def parked() -> bool:
        for pid, command in up.processes().items():
            if shard in command:
                os.kill(pid, signal.SIGKILL)
        return up.ctl("model", "show", MODEL)["state"] == "parked"

    up.wait_for(parked, timeout=100, what="the model is parked")
    row = up.ctl("model", "show", MODEL)
    assert "SIGKILL" in row["reason"]
    (summary,) = up.ctl("status")["parked"]
    assert summary["failures"] == 5
    first, last = (up.ctl("replica", "logs", replica, *option)["logs"][0] for option in (("--first",), ()))
    assert first["attempt"] == 1
    assert last["attempt"] >= 5
    assert first["text"]
    assert last["error"] is None
    up.llmgw("ctl", "model", "unpark", MODEL)
    up.wait_for(lambda: answers(client), timeout=60, what="the model answers again")
