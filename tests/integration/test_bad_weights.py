"""Weights that cannot be served, on a real control plane, a real agent and llama.cpp: what an operator is told."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgw.testing.gguf import write_counting_model, write_random_model
from llmgw.testing.server_process import ServerProcess

DEADLINE_S = 90.0
LFS_POINTER = """version https://git-lfs.github.com/spec/v1
oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393
size 105454432
"""


class Site:
    """One machine with a control plane and a node. Back-off is short: what is counted are tries, not seconds."""

    def __init__(self, root: Path, server: ServerProcess) -> None:
        self.root = root
        self.server = server
        self.weights = root / "weights"
        self.weights.mkdir()
        self.config = root / "agent.toml"
        self.config.write_text(
            f'node_id = "n1"\n'
            f'data_dir = "{root / "agent"}"\n'
            f'servers = ["{server.agent_address}"]\n'
            f'token_file = "{server.data / "agent-token"}"\n'
            f'weights_dirs = ["{self.weights}"]\n'
            f'door_listen = "127.0.0.1:0"\n'
            f"heartbeat_s = 0.5\ndiscover_s = 0.5\n"
        )

    def ctl(self, *arguments: str, code: int = 0) -> str:
        """Run `llmgw ctl`; gives what it printed."""
        known = {"LLMGW_API": self.server.root, "LLMGW_TOKEN": self.server.admin_token}
        done = subprocess.run(
            [sys.executable, "-m", "llmgw", "ctl", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
            env={**os.environ, **known},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def serve(self, name: str, source: Path, *more: str) -> None:
        self.ctl("model", "serve", name, "--source", str(source), "--cores", "0.1", *more)

    def model(self, name: str) -> dict[str, Any]:
        return self.server.get(f"/api/v1/models/{name}")

    def until(self, name: str, state: str) -> dict[str, Any]:
        """Wait until a model is in a state; gives it."""
        return wait_for(lambda: (row := self.model(name)).get("state") == state and row, f"{name} is {state}")

    def events(self, name: str, kind: str) -> list[str]:
        events = self.server.get("/api/v1/events?limit=1000")["events"]
        return [event["message"] for event in reversed(events) if (event["model"], event["kind"]) == (name, kind)]

    @contextlib.contextmanager
    def killing_engines(self) -> Iterator[None]:
        """Kill each engine of this site within moments of its start: a crash of which no log tells a cause."""
        end = threading.Event()

        def kill() -> None:
            while not end.wait(0.02):
                for pid in self._engines():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def _engines(self) -> list[int]:
        """Give the pids of processes whose output is a log of this site's engines."""
        logs, found = str(self.root / "agent" / "logs"), []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and str((entry / "fd" / "1").readlink()).startswith(logs):
                    found.append(int(entry.name))
        return found

    def log(self, name: str, *which: str) -> str:
        return self.ctl("replica", "logs", self.model(name)["replicas"][0]["id"], *which)


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("site")
    with asyncio.Runner() as runner:
        server = ServerProcess(root / "control", settings={"backoff_base_s": 0.2, "backoff_max_s": 0.5})
        runner.run(server.__aenter__())
        site = Site(root, server)
        agent = [sys.executable, "-m", "llmgw", "agent", "--config", str(site.config)]
        try:
            with (root / "agent.log").open("ab") as log, subprocess.Popen(agent, stderr=log) as process:
                wait_for(lambda: server.get("/api/v1/nodes").get("nodes"), "the node joins")
                yield site
                process.send_signal(signal.SIGTERM)
        finally:
            subprocess.run([*agent, "--stop-engines"], check=True, capture_output=True, timeout=DEADLINE_S)
            runner.run(server.__aexit__())
    assert "Traceback" not in server.log() + (root / "agent.log").read_text()
    shutil.rmtree(root, ignore_errors=True)


def truncated(path: Path) -> None:
    write_random_model(path)
    os.truncate(path, path.stat().st_size // 2)


def cut_in_the_header(path: Path) -> None:
    write_random_model(path)
    os.truncate(path, 300)


def damaged(path: Path) -> None:
    write_random_model(path)
    raw = bytearray(path.read_bytes())
    raw[8:16] = (2**40).to_bytes(8, "little")
    path.write_bytes(raw)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda path: path.write_text("Dear model,\nplease answer.\n"), "is not GGUF: it begins with 'Dear'"),
    "truncated": (truncated, "cut short: tensor"),
    "header": (cut_in_the_header, "cut short or damaged within its header"),
    "damaged": (damaged, "damaged within its header"),
    "lfs": (lambda path: path.write_text(LFS_POINTER), "is a Git LFS pointer, not the weights themselves"),
    "empty": (lambda path: path.touch(), "is empty"),
    "folder": (lambda path: path.mkdir(), "folder"),
}


# A folder among the weights is looked into, it is no model.
PLACES = [(kind, "weights") for kind in BROKEN if kind != "folder"] + [("folder", "elsewhere"), ("text", "elsewhere")]


@pytest.mark.parametrize(("kind", "folder"), PLACES)
def test_a_broken_file_parks_its_model_after_one_try_with_the_cause_in_words(site, kind, folder):
    make, words = BROKEN[kind]
    path, name = site.root / folder / f"{kind}.gguf", f"{kind}-{folder}"
    path.parent.mkdir(exist_ok=True)
    make(path)
    site.serve(name, path)
    row = site.until(name, "parked")
    assert words in row["reason"]
    assert row["failures"] == 1
    assert [one["attempt"] for one in row["replicas"]] == [1]
    assert len(site.events(name, "replica.start_failed")) == 1
    (told,) = site.events(name, "model.parked")
    assert "parked after 1 failed start" in told
    assert words in told
    shown = site.ctl("model", "show", name)
    assert "parked" in shown
    assert words in shown
    assert words in site.server.get("/api/v1/summary")["parked"][0]["reason"]
    site.ctl("model", "remove", name)


def test_the_log_of_a_failed_start_is_kept_and_unparking_after_mending_serves(site):
    path = site.weights / "mended.gguf"
    path.write_text("not a model yet\n")
    site.serve("mended", path)
    site.until("mended", "parked")
    assert "invalid magic characters: 'not '" in site.log("mended")
    site.ctl("model", "unpark", "mended")
    wait_for(lambda: len(site.events("mended", "model.parked")) == 2, "tried again, and parked again")
    assert site.until("mended", "parked")["replicas"][0]["attempt"] == 2
    path.unlink()
    write_counting_model(path)
    site.ctl("model", "unpark", "mended")
    row = site.until("mended", "ready")
    assert (row["failures"], row["reason"]) == (0, None)
    assert row["replicas"][0]["attempt"] == 3
    assert "invalid magic characters: 'not '" in site.log("mended", "--first")
    assert "LLMGW-READY" in site.log("mended")
    site.ctl("model", "remove", "mended")


def test_a_path_that_no_node_has_is_unplaceable_and_served_once_it_is_there(site):
    path = site.root / "elsewhere" / "later.gguf"
    path.parent.mkdir(exist_ok=True)
    site.serve("later", path)
    row = site.until("later", "unplaceable")
    assert row["reason"] == f"no node has weights at {path}"
    assert (row["failures"], row["replicas"]) == (0, [])
    assert f"no node has weights at {path}" in site.ctl("model", "show", "later")
    assert site.server.get("/api/v1/summary")["unplaceable"] == ["later"]
    write_counting_model(path)
    assert site.until("later", "ready")["reason"] is None
    site.ctl("model", "remove", "later")


def test_a_model_that_wants_more_memory_than_there_is_says_how_much_there_is(site):
    path = site.weights / "huge.gguf"
    write_counting_model(path)
    site.serve("huge", path, "--memory-gb", "5000")
    row = site.until("huge", "unplaceable")
    assert row["reason"].startswith("1 node: n1 needs 5000.0 GiB of memory, has ")
    assert row["replicas"] == []
    assert row["rejections"][0]["constraint"] == "memory"
    site.ctl("model", "remove", "huge")


def test_a_crash_nobody_has_words_for_is_tried_five_times_and_its_first_and_last_log_are_kept(site):
    path = site.weights / "crashing.gguf"
    write_counting_model(path)
    wait_for(lambda: site.server.get("/api/v1/replicas") == {"replicas": []}, "engines of other models are gone")
    with site.killing_engines():
        site.serve("crashing", path)
        row = site.until("crashing", "parked")
    assert "SIGKILL" in row["reason"]
    assert row["failures"] == 5
    (replica,) = row["replicas"]
    assert replica["attempt"] == 5
    assert len(site.events("crashing", "replica.start_failed")) == 5
    (told,) = site.events("crashing", "model.parked")
    assert "parked after 5 failed starts" in told
    for which, attempt in ((["--first"], 1), ([], 5)):
        (log,) = json.loads(site.ctl("-o", "json", "replica", "logs", replica["id"], *which))["logs"]
        assert (log["attempt"], log["error"]) == (attempt, None)
    site.ctl("model", "unpark", "crashing")
    assert site.until("crashing", "ready")["replicas"][0]["attempt"] == 6
    site.ctl("model", "remove", "crashing")
