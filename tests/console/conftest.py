"""A real Chromium before a real control plane with a fleet of fake nodes."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from llmgw.testing.counting_model import write_counting_model

NODES = 200
START_S = 90.0
CHROMIUM = shutil.which("chromium")
_ARGUMENTS = (
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


class Fleet:
    """A control plane and fake nodes, each a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        api, agents = _free_ports()
        self.root = f"http://127.0.0.1:{api}"
        config = folder / "server.toml"
        config.write_text(
            f'data_dir = "{folder / "data"}"\napi_listen = "127.0.0.1:{api}"\n'
            f'agent_listen = "127.0.0.1:{agents}"\nlog_format = "json"\n'
        )
        self.server = self._start("server", "--config", str(config))
        wait_for(lambda: (folder / "data" / "credentials.json").exists() and self._answers(api), "the control plane")
        token_file = str(folder / "data" / "agent-token")
        words = ("--count", str(NODES), "--kind", "h100x8", "--fabric", "ib-a", "--heartbeat", "2")
        joining = ("--server", f"127.0.0.1:{agents}", "--token-file", token_file, "--name", "a")
        self.nodes = self._start("fake-nodes", *words, *joining)
        assert self.nodes.stdout is not None
        assert "joined" in self.nodes.stdout.readline().decode()

    @property
    def token(self) -> str:
        return json.loads((self.folder / "data" / "credentials.json").read_text())["admin_token"]

    def ask(self, command: str) -> None:
        """Give the fake nodes a command."""
        assert self.nodes.stdin is not None
        self.nodes.stdin.write(f"{command}\n".encode())
        self.nodes.stdin.flush()

    def end(self) -> None:
        for process in (self.nodes, self.server):
            process.kill()
            with process:  # closes its pipes
                process.wait(30)

    def _start(self, *words: str) -> "subprocess.Popen[bytes]":
        argv = (sys.executable, "-m", "llmgw", *words)
        with (self.folder / f"{words[0]}.log").open("ab") as log:
            return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def _answers(self, port: int) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", port)) == 0


class Watched:
    """A page with all that it asked for and complained of."""

    def __init__(self, page: Page, root: str) -> None:
        self.page = page
        self.root = root
        self.hosts: set[str] = set()
        self.complaints: list[str] = []
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._heard)

    def log_in(self, token: str) -> None:
        self.page.goto(self.root)
        self.page.fill("input[name=token]", token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(f"{self.root}/")

    def open(self, path: str) -> Page:
        self.page.goto(self.root + path)
        return self.page

    def check(self) -> None:
        """Nothing was asked of another host, and nothing was refused or broke."""
        assert self.hosts <= {urlsplit(self.root).netloc}
        assert self.complaints == []

    def _heard(self, message: object) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)


# Nothing here outlives a module: while Playwright runs, its own loop does too, and asynchronous tests cannot.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def fleet(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("console"))
    yield fleet
    fleet.end()


@pytest.fixture
def watch(browser: Browser) -> Iterator[Callable[[str, str], Watched]]:
    """Gives a page that is logged in, by root and token; what it complained of fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(30_000)
    made: list[Watched] = []

    def begin(root: str, token: str) -> Watched:
        made.append(Watched(context.new_page(), root))
        made[-1].log_in(token)
        return made[-1]

    yield begin
    for one in made:
        one.check()
    context.close()


@pytest.fixture
def watched(watch: Callable[[str, str], Watched], fleet: Fleet) -> Watched:
    """A page of the control plane with the fleet of fake nodes."""
    return watch(fleet.root, fleet.token)


class Machine:
    """One `llmgw up` with a model that counts, on a real llama.cpp."""

    def __init__(self, folder: Path) -> None:
        self._data = str(folder / "data")
        self._env = {**os.environ, "LLMGW_CTL_CONFIG": str(folder / "ctl.toml")}
        self.weights = folder
        """Where its agent looks for weights."""
        weights = folder / "counting.gguf"
        write_counting_model(weights)
        gateway, api = _free_ports()
        ports = ("--gateway-port", str(gateway), "--api-port", str(api))
        self.llmgw("up", "--detach", "--data-dir", self._data, *ports, "--model", str(weights), "--name", "counting")
        credentials = json.loads((folder / "data" / "credentials.json").read_text())
        self.root, self.token = credentials["api_url"], credentials["admin_token"]

    def llmgw(self, *words: str) -> str:
        argv = (sys.executable, "-m", "llmgw", *words)
        done = subprocess.run(argv, env=self._env, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ctl(self, *words: str) -> Any:
        return json.loads(self.llmgw("ctl", "-o", "json", *words))

    def engine(self) -> int:
        """The engine's process."""
        (replica,) = self.ctl("replica", "list")["replicas"]
        return int(replica["shards"][0]["pid"])

    def end(self) -> None:
        self.llmgw("down", "--data-dir", self._data)


@pytest.fixture(scope="module")
def machine(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    yield machine
    machine.end()


def wait_for(wanted: Callable[[], object], what: str, *, seconds: float = START_S) -> None:
    deadline = time.monotonic() + seconds
    while not wanted():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]
