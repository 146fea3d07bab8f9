"""A gateway on a machine without a control plane: it joins by token and finds the control plane that answers."""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
import pytest_asyncio

from llmgw.testing.gateway_process import GatewayProcess, free_port, until
from llmgw.testing.server_process import ServerProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "edge"


class Far:
    """A control plane with mutual TLS, and a gateway that joined and reaches it over TCP only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hung = socket.create_server(("127.0.0.1", 0))  # connections wait in its queue for ever
        self.address = f"127.0.0.1:{free_port()}"
        self.server = ServerProcess(folder / "server", settings={"tls": "on", "gateway_listen": self.address})
        self.gateway: GatewayProcess

    async def join(self) -> None:
        """Do as the how-to says."""
        control = [f"127.0.0.1:{self.hung.getsockname()[1]}", f"127.0.0.1:{free_port()}", self.address]
        self.gateway = GatewayProcess(
            self.folder,
            local=False,
            trust=self.server.authority,
            more=f'tls = "on"\nname = "{NAME}"\ncontrol = {json.dumps(control)}\n',
        )
        made = await self.server.call("POST", "/api/v1/join-tokens", {"part": "gateway", "name": NAME})
        command = ["gateway", "join", "--config", str(self.gateway.config), "--via", self.server.agent_address]
        joining = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llmgw", *command, stdin=asyncio.subprocess.PIPE, env=dict(os.environ)
        )
        await joining.communicate(made["token"].encode())
        assert joining.returncode == 0

    def key(self) -> str:
        return str(json.loads((self.server.data / "credentials.json").read_text())["api_key"])

    async def models(self) -> list[str]:
        async with self.gateway.client(self.key()) as client:
            return [model.id for model in (await client.models.list()).data]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def far(tmp_path_factory) -> AsyncIterator[Far]:
    far = Far(tmp_path_factory.mktemp("far"))
    with far.hung:
        async with far.server:
            await far.join()
            try:
                await far.gateway.start()
                yield far
            finally:
                await far.gateway.end()


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


@pytest.mark.slow
async def test_it_serves_on_without_the_control_plane_and_comes_back_to_it(far):
    await answers(far)
    connected = far.server.log().count('"gateway.connected"')
    await far.server.restart()
    await far.models()
    await far.server.until(lambda: far.server.log().count('"gateway.connected"') > connected)


async def test_one_that_is_removed_is_let_go_at_once_and_told_so_and_serves_on_with_its_last_view(far):
    await answers(far)
    await far.server.until(lambda: '"gateway.connected"' in far.server.log())
    gone = far.server.log().count('"gateway.disconnected"')
    await far.server.call("DELETE", f"/api/v1/gateways/{NAME}")
    await far.server.until(lambda: far.server.log().count('"gateway.disconnected"') > gone)
    await until(lambda: "it refuses this gateway: gateway edge is not known" in far.gateway.log.read_text())
    await far.models()
