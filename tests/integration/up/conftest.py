"""One real `llmgw up` per test module: real processes, real llama.cpp, everything on loopback."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

from llmgw.testing.counting_model import write_counting_model

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starting eight processes takes seconds on a quiet machine and may take a minute on a busy one."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(420))


@dataclass
class Up:
    """A running (or stopped) `llmgw up` in a folder of its own."""

    root: Path
    gateway_port: int
    api_port: int

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "LLMGW_CTL_CONFIG": str(self.root / "ctl.toml")}

    def llmgw(self, *arguments: str, check: bool = True, timeout: float = 180) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "llmgw", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"llmgw {' '.join(arguments)}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done

    def up(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        ports = ("--gateway-port", str(self.gateway_port), "--api-port", str(self.api_port))
        return self.llmgw("up", "--detach", "--data-dir", str(self.root / "data"), *ports, *arguments, check=check)

    def down(self, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.llmgw("down", "--data-dir", str(self.root / "data"), check=check)

    def ctl(self, *arguments: str) -> Any:
        return json.loads(self.llmgw("ctl", "-o", "json", *arguments).stdout)

    @property
    def credentials(self) -> dict[str, str]:
        return json.loads((self.root / "data" / "credentials.json").read_text())

    @property
    def key(self) -> str:
        return self.credentials["api_key"]

    @property
    def base_url(self) -> str:
        return self.credentials["base_url"]

    def pid(self, name: str) -> int:
        """Pid of server, agent, gateway or supervisor."""
        state = json.loads((self.root / "data" / "up.json").read_text())
        if name == "supervisor":
            return state["supervisor"]["pid"]
        return next(child["pid"] for child in state["children"] if child["name"] == name)

    def wait_ready(self, model: str, *, timeout: float = 90) -> None:
        wait_for(
            lambda: self.ctl("model", "show", model)["state"] == "ready", timeout=timeout, what=f"{model} is ready"
        )

    def engine_pids(self) -> dict[str, int | None]:
        """Pid per shard, as the control plane reports them."""
        rows = self.ctl("replica", "list")["replicas"]
        return {shard["id"]: shard.get("pid") for row in rows for shard in row["shards"]}

    def processes(self) -> dict[int, str]:
        """Command lines of all processes of this `up`: each of them writes its output into the data folder."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                output = str((entry / "fd" / "1").readlink())
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if command and output.startswith(str(self.root)):
                found[int(entry.name)] = command
        return found

    def all_processes(self) -> dict[int, str]:
        """Wait until everything runs: supervisor, server, agent, door, engine, gateway master, two workers."""
        return wait_for(
            lambda: len(found := self.processes()) == 8 and found, timeout=30, what="all eight processes run"
        )

    def logs(self) -> str:
        parts = [
            f"--- {path}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-25:])
            for path in sorted((self.root / "data").rglob("*.log"))
        ]
        return "\n".join(parts)

    @staticmethod
    def wait_for(condition: Callable[[], Any], *, timeout: float, what: str) -> Any:
        return wait_for(condition, timeout=timeout, what=what)


def wait_for(condition: Callable[[], Any], *, timeout: float, what: str) -> Any:
    """Poll until `condition` gives something true; its value. The deadline is generous, the step short."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(0.05)


class Traffic:
    """A loop of requests in threads. Collects every failure with its moment."""

    def __init__(self, request: Callable[[], None], *, threads: int = 3) -> None:
        self.failures: list[tuple[float, str]] = []
        self.answered = 0
        self._request = request
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        wait_for(lambda: self.answered > 5, timeout=60, what="traffic flows")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def more(self, count: int, *, timeout: float = 60) -> None:
        """Wait until `count` more requests were answered."""
        goal = self.answered + count
        wait_for(lambda: self.answered >= goal, timeout=timeout, what=f"{count} more answers")

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._request()
                self.answered += 1
            except Exception as error:  # noqa: BLE001 - every failure of a client is a finding, whatever its kind
                self.failures.append((time.monotonic(), repr(error)))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def new_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Up]]:
    """Make an `Up` that is ended and swept whatever the test did."""
    made: list[Up] = []

    def make() -> Up:
        one = Up(root=tmp_path_factory.mktemp("up"), gateway_port=free_port(), api_port=free_port())
        made.append(one)
        return one

    yield make
    for one in made:
        one.down(check=False)
        left = one.processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(one.root, ignore_errors=True)
        assert not left, f"left running: {left}"


@pytest.fixture
def traffic() -> type[Traffic]:
    return Traffic


@pytest.fixture(scope="session")
def counting_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real GGUF whose answer is always " 1 2 3 …": lost, doubled or mixed chunks are seen at once."""
    path = tmp_path_factory.mktemp("weights") / "counting.gguf"
    write_counting_model(path, last=60)
    return path
