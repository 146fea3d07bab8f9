"""The control plane as a process: real store, real sockets, a fake agent, a gateway's end of the hub."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from llmgw.link.api import Api, Unreachable
from llmgw.link.frames import pack, read_frame
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.errors import LlmgwError
from llmgw.schema.link import ControlMessage, GatewayHello, Ping, ViewDelta, ViewSnapshot
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.testing.fake_agent import FakeAgent
from llmgw.testing.fake_node import FakeNode, fake_facts

DEADLINE_S = 45.0
SOURCE = "/models/tiny.gguf"


def free_ports(count):
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [sock.getsockname()[1] for sock in socks]


def node():
    facts = replace(
        fake_facts("node-1"),
        weights=(Weights(path=SOURCE, format=WeightsFormat.GGUF, size_bytes=1024, context_length=2048),),
        engines=(EngineInstall(kind=EngineKind.LLAMACPP, version="1", variant="cpu", state=EngineState.READY),),
        engines_probed=True,
    )
    return FakeNode("node-1", facts=facts)


class Server:
    """One data folder and the processes that run on it, one after the other."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.api_port, self.agent_port = free_ports(2)
        self.config = folder / "server.toml"
        self.config.write_text(
            f'data_dir = "{folder / "data"}"\n'
            f'api_listen = "127.0.0.1:{self.api_port}"\n'
            f'agent_listen = "127.0.0.1:{self.agent_port}"\n'
            'log_format = "json"\n'
        )
        self.process = None
        self.log = (folder / "log").open("ab")

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llmgw", "server", "--config", str(self.config), stderr=self.log
        )
        # With the first secrets made: it leads a moment before that.
        await self.until(lambda: self.call("GET", "/api/v1/summary") is not None)

    async def end(self, number=signal.SIGTERM):
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)
            async with asyncio.timeout(DEADLINE_S):
                await self.process.wait()

    def call(self, method, path, body=None):
        """Give the answer, or nothing when there is none or it is an error."""
        credentials = self.folder / "data" / "credentials.json"
        token = json.loads(credentials.read_text())["admin_token"] if credentials.exists() else None
        try:
            return Api(f"http://127.0.0.1:{self.api_port}", token).call(method, path, body)
        except (LlmgwError, Unreachable):
            return None

    async def until(self, true):
        async with asyncio.timeout(DEADLINE_S):
            while True:
                found = await asyncio.to_thread(true)
                if found:
                    return found
                await asyncio.sleep(0.05)

    async def replica(self):
        def ready():
            answer = self.call("GET", "/api/v1/replicas") or {"replicas": []}
            return next((one for one in answer["replicas"] if one["state"] == "ready"), None)

        return await self.until(ready)

    @contextlib.asynccontextmanager
    async def agent(self, fake):
        """Keep a fake agent connected, dialling again whenever its stream ends."""
        token = (self.folder / "data" / "agent-token").read_text().strip()

        async def dial():
            while True:
                with contextlib.suppress(OSError):
                    await FakeAgent(fake, address=f"127.0.0.1:{self.agent_port}", token=token).run()
                await asyncio.sleep(0.1)

        task = asyncio.ensure_future(dial())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def view(self):
        """Give the first message a gateway gets."""
        reader, writer = await asyncio.open_unix_connection(str(self.folder / "data" / "hub.sock"))
        try:
            writer.write(pack(GatewayHello(gateway="g1", version="1", pid=1)))
            async with asyncio.timeout(DEADLINE_S):
                return msgspec.json.decode(await read_frame(reader), type=ControlMessage)
        finally:
            writer.close()


@pytest.fixture
async def server(tmp_path):
    server = Server(tmp_path)
    await server.start()
    yield server
    await server.end(signal.SIGKILL)
    server.log.close()
    assert "Traceback" not in (tmp_path / "log").read_text()


async def serve(server):
    made = await asyncio.to_thread(
        server.call, "POST", "/api/v1/models", {"name": "org/tiny", "source": SOURCE, "profile": {"cores": 1.0}}
    )
    assert made is not None
    return await server.replica()


async def test_a_model_is_served_by_an_agent_and_shown_to_gateways(server):
    async with server.agent(node()):
        replica = await serve(server)
        snapshot = await server.view()
    assert isinstance(snapshot, ViewSnapshot)
    (route,) = snapshot.view.routes.routes
    assert route.model == "org/tiny"
    assert route.replicas[0].id == replica["id"]
    assert route.replicas[0].endpoint.startswith("http://127.0.0.1:")
    assert len(snapshot.view.keys.keys) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
async def test_a_restarted_server_routes_at_once_and_starts_nothing_again(server, number):
    fake = node()
    async with server.agent(fake):
        replica = await serve(server)
    before = (await server.view()).view.routes.routes
    epoch = server.call("GET", "/leader")["epoch"]
    await server.end(number)
    assert server.process.returncode == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    await server.start()
    after = await server.view()
    assert isinstance(after, ViewSnapshot)
    assert after.view.routes.routes == before
    assert server.call("GET", "/leader")["epoch"] == epoch + 1
    async with server.agent(fake):
        await server.until(lambda: fake.epoch == epoch + 1)
        await asyncio.sleep(1.0)
        assert (await server.replica())["id"] == replica["id"]
    assert fake.starts == [(f"{replica['id']}.0", 1)]


async def test_a_stop_lets_agents_go_before_anything_else_and_leaves_nothing(server):
    fake = node()
    agent = FakeAgent(
        fake,
        address=f"127.0.0.1:{server.agent_port}",
        token=(server.folder / "data" / "agent-token").read_text().strip(),
    )
    stream = asyncio.ensure_future(agent.run())
    await server.until(lambda: agent.welcome)
    server.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(1.5):
        await stream
    async with asyncio.timeout(DEADLINE_S):
        assert await server.process.wait() == 0
    assert not (server.folder / "data" / "hub.sock").exists()


async def test_a_second_server_on_the_same_ports_says_which_port_is_in_use(server):
    second = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "llmgw", "server", "--config", str(server.config), stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(second.communicate(), DEADLINE_S)
    assert second.returncode == 1
    assert f"port {server.api_port} is in use".encode() in said
    assert b"Traceback" not in said
    assert server.call("GET", "/leader") is not None


async def test_a_gateway_hears_of_a_new_model_without_asking(server):
    reader, writer = await asyncio.open_unix_connection(str(server.folder / "data" / "hub.sock"))
    writer.write(pack(GatewayHello(gateway="g1", version="1", pid=1)))
    assert isinstance(msgspec.json.decode(await read_frame(reader), type=ControlMessage), ViewSnapshot)
    await asyncio.to_thread(server.call, "POST", "/api/v1/models", {"name": "tiny", "source": SOURCE})
    message = Ping()
    async with asyncio.timeout(DEADLINE_S):
        while isinstance(message, Ping):
            message = msgspec.json.decode(await read_frame(reader), type=ControlMessage)
    writer.close()
    assert isinstance(message, ViewDelta)
    assert [route.model for route in message.routes.changed] == ["tiny"]


async def test_no_secret_is_in_the_log(server):
    await serve_nothing(server)
    await server.end()
    text = (server.folder / "log").read_text()
    secrets = json.loads((server.folder / "data" / "credentials.json").read_text())
    token = (server.folder / "data" / "agent-token").read_text().strip()
    assert not [name for name, secret in [*secrets.items(), ("agent", token)] if name != "api_url" and secret in text]


async def serve_nothing(server):
    async with server.agent(node()):
        await server.until(lambda: (server.call("GET", "/api/v1/nodes") or {}).get("nodes"))
