"""A gateway as it is run, with the control plane's end of its stream: for integration tests."""

import asyncio
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

import msgspec
import openai
import psutil

from llmgw.link.frames import pack, read_frame
from llmgw.schema.link import GatewayHello, GatewayMessage, GatewayReport, ViewSnapshot
from llmgw.schema.view import View
from llmgw.testing.gateway_room import SECRET

GENEROUS_S = 20.0
_ASKED_IN_A_ROW = 6
_DECODER: msgspec.json.Decoder[GatewayMessage] = msgspec.json.Decoder(GatewayMessage)


def free_port() -> int:
    """Give a port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def until(reached: Callable[[], object], *, deadline_s: float = GENEROUS_S) -> None:
    """Wait until something in another process is so."""
    async with asyncio.timeout(deadline_s):
        while not reached():  # noqa: ASYNC110 (what is waited for lies in other processes)
            await asyncio.sleep(0.02)


class ControlPlane:
    """The control plane's end of a gateway's stream."""

    def __init__(self, path: Path, view: View) -> None:
        self.view = view
        self.hellos: list[GatewayHello] = []
        self.reports: list[GatewayReport] = []
        self._path = path
        self._streams: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, str(self._path))

    async def stop(self) -> None:
        """Break the stream."""
        if self._server is None:
            return
        self._server.close()
        for writer in tuple(self._streams):
            writer.transport.abort()
        await self._server.wait_closed()
        self._server = None

    def send(self, message: object) -> None:
        """Send a message to the gateway."""
        for writer in self._streams:
            writer.write(pack(message))

    def metrics(self) -> dict[tuple[str, ...], float]:
        """Give the last report's samples by name and label values, the gateway's own name left out."""
        if not self.reports:
            return {}
        samples = self.reports[-1].report.metrics
        return {(one.name, *list(dict(one.labels).values())[1:]): one.value for one in samples}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._streams.add(writer)
        try:
            while (frame := await read_frame(reader)) is not None:
                message = _DECODER.decode(frame)
                if isinstance(message, GatewayHello):
                    self.hellos.append(message)
                    writer.write(pack(ViewSnapshot(view=self.view)))
                elif isinstance(message, GatewayReport):
                    self.reports.append(message)
        finally:
            self._streams.discard(writer)
            writer.transport.abort()


class GatewayProcess:
    """A gateway's processes. `more` are further lines of its configuration; `trust`: certificates of one with TLS."""

    process: "subprocess.Popen[bytes]"

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        drain_s: float = 5.0,
        more: str = "",
        local: bool = True,
        trust: Path | None = None,
    ) -> None:
        self.tls = None if trust is None else ssl.create_default_context(cafile=str(trust))
        self.port = free_port()
        self.data_dir = folder / "gateway"
        self.socket = folder / "hub.sock"
        self.config = folder / "gateway.toml"
        self.config.write_text(
            f'data_dir = "{self.data_dir}"\nlisten = "127.0.0.1:{self.port}"\n'
            + (f'control_socket = "{self.socket}"\n' if local else "")
            + f'workers = {workers}\ndrain_s = {drain_s}\nlog_format = "json"\n{more}'
        )
        self.log = folder / "gateway.log"
        self.seen: dict[int, psutil.Process] = {}
        """All workers ever looked at, by process id."""

    async def start(self) -> None:
        """Start it and wait until it answers."""
        command = [sys.executable, "-m", "llmgw.cli.main", "gateway", "--config", str(self.config)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log)  # noqa: ASYNC220 (starting takes a millisecond)
        await self._answering()

    async def _answering(self) -> None:
        async with asyncio.timeout(GENEROUS_S):
            while True:
                with suppress(OSError, asyncio.IncompleteReadError):
                    reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
                    writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                    answer = await reader.read()
                    writer.close()
                    if answer.startswith(b"HTTP/1.1 200"):
                        return
                if self.process.poll() is not None:
                    raise RuntimeError(self.log.read_text())
                await asyncio.sleep(0.02)

    async def knows(self, model: str = "tiny") -> None:
        """Wait until every worker serves a model: connections of their own spread over them."""
        asked = 0
        async with self.client() as client, asyncio.timeout(GENEROUS_S):
            while asked < _ASKED_IN_A_ROW:
                with suppress(openai.APIStatusError, openai.APIConnectionError):
                    await client.models.retrieve(model, extra_headers={"connection": "close"})
                    asked += 1
                    continue
                asked = 0
                await asyncio.sleep(0.05)

    def workers(self) -> list[int]:
        """Give the process ids of the workers that run now."""
        found = psutil.Process(self.process.pid).children()
        self.seen.update((one.pid, one) for one in found)
        return sorted(one.pid for one in found if one.status() != psutil.STATUS_ZOMBIE)

    def client(self, key: str = SECRET, **options: Any) -> openai.AsyncOpenAI:
        """Give a client of the openai package that does not try again."""
        scheme = "http"
        if self.tls is not None:
            scheme, options = "https", {"http_client": openai.DefaultAsyncHttpxClient(verify=self.tls), **options}
        return openai.AsyncOpenAI(
            base_url=f"{scheme}://127.0.0.1:{self.port}/v1", api_key=key, max_retries=0, **options
        )

    async def stop(self) -> int:
        """Ask it to end; gives its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, GENEROUS_S)

    async def end(self) -> None:
        """Kill all of it."""
        if hasattr(self, "process"):
            with suppress(psutil.Error):
                self.workers()
            self.process.kill()
            self.process.wait()
        for one in self.seen.values():
            with suppress(psutil.Error):
                one.kill()


class Site(AbstractAsyncContextManager["Site"]):
    """A gateway that serves a view its control plane told it."""

    def __init__(self, folder: Path, view: View, **options: Any) -> None:
        self.gateway = GatewayProcess(folder, **options)
        self.control = ControlPlane(self.gateway.socket, view)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self.gateway.end)
        self._stack.push_async_callback(self.control.stop)
        await self.control.start()
        await self.gateway.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()
