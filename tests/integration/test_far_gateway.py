"""A gateway on a machine without a control plane: it joins by token and finds the control plane that answers.

Beside it one on the control plane's machine: each hears of the other, and tells it its load.
"""

import asyncio
import contextlib
import json
import os
import socket
import ssl
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
import pytest_asyncio

from llmgw.testing.gateway_process import GatewayProcess, free_port, until
from llmgw.testing.server_process import ServerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

EDGE, LOCAL = "edge", "local"


class Far:
    """A control plane with mutual TLS, and two gateways that joined: one reaches it over TCP only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hung = socket.create_server(("127.0.0.1", 0))  # connections wait in its queue for ever
        self.address = f"127.0.0.1:{free_port()}"
        self.server = ServerProcess(folder / "server", settings={"tls": "on", "gateway_listen": self.address})
        self.gateway: GatewayProcess
        self.local: GatewayProcess

    async def join(self) -> None:
        """Do as the how-to says."""
        control = [f"127.0.0.1:{self.hung.getsockname()[1]}", f"127.0.0.1:{free_port()}", self.address]
        self.gateway = await self._joined(EDGE, f"control = {json.dumps(control)}\n")
        self.local = await self._joined(LOCAL, f'control_socket = "{self.server.data / "hub.sock"}"\n')

    async def _joined(self, name: str, control: str) -> GatewayProcess:
        folder = self.folder / name
        folder.mkdir()
        more = f'tls = "on"\nname = "{name}"\npeer_listen = "127.0.0.1:{free_port()}"\n{control}'
        gateway = GatewayProcess(folder, workers=1, local=False, trust=self.server.authority, more=more)
        made = await self.server.call("POST", "/api/v1/join-tokens", {"part": "gateway", "name": name})
        command = ["gateway", "join", "--config", str(gateway.config), "--via", self.server.agent_address]
        joining = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llmgw", *command, stdin=asyncio.subprocess.PIPE, env=dict(os.environ)
        )
        await joining.communicate(made["token"].encode())
        assert joining.returncode == 0
        return gateway

    def seen(self, event: str) -> int:
        """Count what the control plane logged of the far gateway."""
        lines = [json.loads(line) for line in self.server.log().splitlines() if line.startswith("{")]
        return sum((line["event"], line.get("gateway")) == (event, EDGE) for line in lines)

    def metrics(self) -> str:
        context = ssl.create_default_context(cafile=str(self.server.authority))
        asked = urllib.request.Request(
            f"{self.server.root}/metrics", headers={"authorization": f"Bearer {self.server.admin_token}"}
        )
        with urllib.request.urlopen(asked, context=context, timeout=10) as answer:
            return str(answer.read().decode())

    def key(self) -> str:
        return str(json.loads((self.server.data / "credentials.json").read_text())["api_key"])

    async def models(self) -> list[str]:
        async with self.gateway.client(self.key()) as client:
            return [model.id for model in (await client.models.list()).data]


@contextlib.asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Far]:
    far = Far(folder)
    with far.hung:
        async with far.server:
            await far.join()
            try:
                await far.gateway.start()
                await far.local.start()
                yield far
            finally:
                await far.gateway.end()
                await far.local.end()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def far(tmp_path_factory) -> AsyncIterator[Far]:
    async with running(tmp_path_factory.mktemp("far")) as far:
        yield far


async def answers(far: Far) -> None:
    """Wait until the gateway knows the key: it came with the view."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(openai.APIStatusError):
                await far.models()
                return
            await asyncio.sleep(0.1)


async def test_it_gets_the_view_past_control_planes_that_hang_or_are_off(far):
    await answers(far)
    assert '"control.connected"' in far.gateway.log.read_text()


async def test_gateways_hear_of_each_other_from_the_control_plane(far):
    def known() -> bool:
        metrics = far.metrics()
        return all(f'llmgw_gateway_peers{{gateway="{name}",state="known"}} 1.0' in metrics for name in (EDGE, LOCAL))

    await far.server.until(known)


@pytest.mark.slow
async def test_it_serves_on_without_the_control_plane_and_comes_back_to_it(far):
    await answers(far)
    connected = far.seen("gateway.connected")
    await far.server.restart()
    await far.models()
    await far.server.until(lambda: far.seen("gateway.connected") > connected)


async def test_one_that_is_removed_is_let_go_at_once_and_told_so_and_serves_on_with_its_last_view(tmp_path):
    async with running(tmp_path) as far:  # of its own: nothing comes after a removal
        await answers(far)
        gone = far.seen("gateway.disconnected")
        await far.server.call("DELETE", f"/api/v1/gateways/{EDGE}")
        await far.server.until(lambda: far.seen("gateway.disconnected") > gone)
        await until(lambda: "it refuses this gateway: gateway edge is not known" in far.gateway.log.read_text())
        await far.models()
