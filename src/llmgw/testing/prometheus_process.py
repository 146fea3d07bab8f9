"""A real Prometheus of a test's own: Debian's package, a free loopback port, a folder in the temporary one."""

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import yaml

DEADLINE_S = 60.0


def installed() -> bool:
    """True when there is a Prometheus, with its tool, on this machine."""
    return shutil.which("prometheus") is not None and shutil.which("promtool") is not None


class PrometheusProcess:
    """Scrapes one control plane each second. Use as a context: ready at its beginning, killed at its end."""

    def __init__(self, folder: Path, *, rules: Path | None = None) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as sock:
            self.port = int(sock.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._data = folder / "data"
        self._config = folder / "prometheus.yml"
        self._token = folder / "token"
        self._rules = rules
        self._process: asyncio.subprocess.Process | None = None
        self.folder.mkdir(parents=True, exist_ok=True)

    async def remember(self, lines: Iterable[str]) -> None:
        """Put a past into it before it starts: OpenMetrics text, one sample a line."""
        text = self.folder / "past.txt"
        text.write_text("\n".join([*lines, "# EOF\n"]))
        await _run("promtool", "tsdb", "create-blocks-from", "openmetrics", str(text), str(self._data))

    async def start(self, *, target: str, token: str) -> None:
        """Start, scraping `target` (`host:port`) with `token`."""
        self._token.write_text(token)
        self._token.chmod(0o600)
        settings: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [
                {
                    "job_name": "llmgw",
                    "authorization": {"credentials_file": str(self._token)},
                    "static_configs": [{"targets": [target]}],
                }
            ],
        }
        if self._rules is not None:
            settings["rule_files"] = [str(self._rules)]
        self._config.write_text(yaml.safe_dump(settings))
        with (self.folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                "prometheus",
                f"--config.file={self._config}",
                f"--storage.tsdb.path={self._data}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                stdout=log,
                stderr=log,
            )
        async with asyncio.timeout(DEADLINE_S):
            while not await asyncio.to_thread(self._is_ready):
                if self._process.returncode is not None:
                    raise RuntimeError(f"Prometheus ended\n{(self.folder / 'log').read_text()[-2000:]}")
                await asyncio.sleep(0.05)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def kill(self) -> None:
        """End it at once, also a stopped one."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def freeze(self) -> None:
        """Stop it: connections are taken on, nothing is answered."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def ask(self, path: str, **query: object) -> Any:
        """Ask its API, blocking; gives `data`."""
        text = urllib.parse.urlencode({name: str(value) for name, value in query.items()})
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{text}", timeout=30) as answer:  # noqa: S310 - our own
            return json.load(answer)["data"]

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, urllib.error.URLError):
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=5).close()  # noqa: S310 - our own
            return True
        return False

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


async def _run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}: {said.decode(errors='replace')[-2000:]}")
