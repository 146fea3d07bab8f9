"""A control plane as a process of its own in a folder of its own, for tests and benchmarks."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from llmgw.link.api import Api, Unreachable
from llmgw.schema.errors import LlmgwError

T = TypeVar("T")

DEADLINE_S = 60.0


class ServerProcess:
    """Runs `llmgw server` on free ports. Use as a context: ready once it leads, killed at the end."""

    def __init__(self, folder: Path, *, settings: Mapping[str, object] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.pid = 0
        self.agent_address = ""
        self.root = ""
        self.config = folder / "server.toml"
        self._settings = dict(settings or {})
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        if not self.config.exists():
            self.configure()
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()  # nobody else would: the context was not entered
            raise
        return self

    def configure(self) -> None:
        """Choose ports and write the configuration; done by starting where it was not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        api, agents = _free_ports(2)
        scheme = "https" if self._settings.get("tls") == "on" else "http"
        self.root, self.agent_address = f"{scheme}://127.0.0.1:{api}", f"127.0.0.1:{agents}"
        settings = {
            "data_dir": str(self.data),
            "api_listen": f"127.0.0.1:{api}",
            "agent_listen": self.agent_address,
            "log_format": "json",
            **self._settings,
        }
        self.config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))

    async def restart(self) -> None:
        """Kill it, and start it again on the same folder and ports."""
        await self.__aexit__()
        await self._start()

    async def _start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "llmgw", "server", "--config", str(self.config), stdout=log, stderr=log
            )
        self.pid = self._process.pid
        try:
            await self.until(lambda: self._process_ended() or self.get("/api/v1/summary").get("leader") is not None)
        except TimeoutError:
            raise RuntimeError(f"the control plane does not lead\n{self.log()[-4000:]}") from None
        if self._process_ended():
            raise RuntimeError(f"the control plane ended\n{self.log()[-4000:]}")

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    @property
    def authority(self) -> Path:
        """The cluster's authority, with mutual TLS."""
        return self.data / "identity" / "authority.pem"

    def _api(self) -> Api:
        ca_file = self.authority if self.root.startswith("https:") else None
        return Api(self.root, self.admin_token or None, timeout_s=30, ca_file=ca_file)

    @property
    def runs(self) -> bool:
        """True while the process that was started last has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def agent_token(self) -> str:
        """What agents present."""
        return (self.data / "agent-token").read_text().strip()

    @property
    def admin_token(self) -> str:
        """What operators present; empty until the control plane made it."""
        try:
            named = self._settings.get("credentials_file", self.data / "credentials.json")
            return str(json.loads(Path(str(named)).read_text())["admin_token"])
        except FileNotFoundError:
            return ""

    def get(self, path: str) -> Any:
        """GET, blocking. An error, or no answer, is an empty answer: for loops that wait."""
        try:
            return self._api().get(path)
        except (LlmgwError, Unreachable):
            return {}

    async def call(self, method: str, path: str, body: object | None = None) -> Any:
        """Call the API. Raises its errors."""
        return await asyncio.to_thread(self._api().call, method, path, body)

    async def until(self, found: Callable[[], T], *, deadline_s: float = DEADLINE_S, step_s: float = 0.05) -> T:
        """Ask in a thread until there is something; gives it. Raises `TimeoutError`."""
        async with asyncio.timeout(deadline_s):
            while True:
                answer = await asyncio.to_thread(found)
                if answer:
                    return answer
                await asyncio.sleep(step_s)

    def _process_ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    def log(self) -> str:
        """Give all it logged."""
        return (self.folder / "server.log").read_text(errors="replace")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(sock.getsockname()[1]) for sock in socks]
