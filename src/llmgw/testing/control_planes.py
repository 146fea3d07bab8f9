"""Several control planes on one PostgreSQL, a gateway beside each, and fake nodes: for trials of takeovers."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from llmgw.link.identity import TlsIdentity, write_identity, write_secret
from llmgw.link.join import join, read_ticket
from llmgw.schema.identity import Identity, Part
from llmgw.schema.value import Value
from llmgw.server.authority import new_secret as new_authority_secret
from llmgw.server.identity import SecretKind, new_secret
from llmgw.testing.fake_nodes import FakeFleet, NodeGroup
from llmgw.testing.gateway_process import GatewayProcess
from llmgw.testing.postgres import PASSWORD, PostgresServer
from llmgw.testing.server_process import ServerProcess

MODEL = "org/counting"
WEIGHTS = "/models/shared.gguf"
DEADLINE_S = 90.0
PAUSE_S = 0.05
"""Between a client's answer and its next request: all of this shares the cores of one machine."""
_PARTS_PER_ANSWER = 8


class Takeover(Value, frozen=True, kw_only=True):
    """What one takeover took, in seconds from the signal."""

    led_s: float
    """Until another control plane said that it leads."""
    attached_s: float
    """Until the last agent had a stream to it."""
    let_go_s: float
    """Until the last agent had lost its stream to the old one."""


class ControlPlanes:
    """Control planes `control-1` and so on with a gateway each, and `agents` fake nodes that know all of them."""

    def __init__(
        self, folder: Path, postgres: PostgresServer, *, count: int = 2, agents: int = 20, tls: bool = False
    ) -> None:
        """`tls`: mutual TLS, every fake node with a certificate that it joined for."""
        self._authority_secret = new_authority_secret() if tls else None
        self.servers: list[ServerProcess] = []
        self.gateways: list[GatewayProcess] = []
        self.fleet: FakeFleet | None = None
        self.api_key = new_secret(SecretKind.API_KEY)
        self._admin_token = new_secret(SecretKind.ADMIN_TOKEN)
        self._agent_token = secrets.token_urlsafe(16)
        self._folder = folder
        self._postgres = postgres
        self._count = count
        self._agents = agents
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def fakes(self) -> FakeFleet:
        """The fake nodes."""
        if self.fleet is None:
            raise RuntimeError("they are not started")
        return self.fleet

    async def leader(self, *, but: ServerProcess | None = None) -> ServerProcess:
        """Wait until one of them says that it leads."""
        connector = aiohttp.TCPConnector(ssl=self._trusting())
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=1)) as session:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    for server in self.servers:
                        if server is not but and await _leads(session, server.root):
                            return server
                    await asyncio.sleep(0.02)

    async def all_there(self) -> ServerProcess:
        """Wait until one leads, all others stand by, and all agents are attached; gives the leader."""
        leader = await self.leader()
        states = sorted(["leading", *["standing by"] * (len(self.servers) - 1)])
        await leader.until(
            lambda: (
                sorted(one["state"] for one in leader.get("/api/v1/control-planes").get("control_planes", [])) == states
            )
        )
        async with asyncio.timeout(DEADLINE_S):
            while self.fakes.served() < self._agents:  # noqa: ASYNC110 - the state of hundreds of streams
                await asyncio.sleep(0.05)
        return leader

    async def takeover(self, leader: ServerProcess, number: signal.Signals) -> Takeover:
        """Send the leader a signal, and wait until another one leads with all agents."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        os.kill(leader.pid, number)
        await self.leader(but=leader)
        led = loop.time()
        members = self.fakes.members.values()
        async with asyncio.timeout(DEADLINE_S):
            while any(one.served_since is None or one.served_since < began for one in members):  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.02)
        return Takeover(
            led_s=led - began,
            attached_s=max(one.served_since or 0.0 for one in members) - began,
            let_go_s=max(one.lost_at or 0.0 for one in members) - began,
        )

    @contextlib.asynccontextmanager
    async def traffic(self, gateways: Sequence[GatewayProcess], *, clients: int = 2) -> AsyncIterator["Traffic"]:
        """Ask the model through `gateways` all the while, every second request as a stream."""
        traffic = Traffic(self.api_key)
        tasks = [asyncio.ensure_future(traffic.run(one.port)) for one in gateways for _ in range(clients)]
        try:
            await traffic.more(10)
            yield traffic
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await traffic.close()

    async def _start(self) -> None:
        os.environ["LLMGW_STORE_PASSWORD"] = PASSWORD
        name = f"planes_{os.getpid()}_{time.monotonic_ns()}"
        self._postgres.new_database(name)
        self._stack.callback(self._postgres.drop_database, name)
        for number in range(1, self._count + 1):
            folder = self._folder / f"control-{number}"
            self._write_secrets(folder / "data")
            settings = {
                "name": f"control-{number}",
                "store_url": self._postgres.url(name, password=None),
                "gateway_socket": str(folder / "hub.sock"),
                **({} if self._authority_secret is None else {"tls": "on"}),
            }
            server = ServerProcess(folder, settings=settings)
            self.servers.append(await self._stack.enter_async_context(server))
            gateway = GatewayProcess(folder, workers=1, more=f'name = "gateway-{number}"\n')
            self._stack.push_async_callback(gateway.end)
            await gateway.start()
            self.gateways.append(gateway)
        group = NodeGroup(kind="cpu-small", count=self._agents, name="fake", weights=(WEIGHTS,))
        addresses = [server.agent_address for server in self.servers]
        contexts = await self._join_all()
        self.fleet = FakeFleet(
            [group],
            server=addresses,
            token="" if contexts else self._agent_token,
            start_s=0.05,
            tls=contexts.__getitem__ if contexts else None,
        )
        await self._stack.enter_async_context(self.fleet)
        await self.fleet.joined(deadline_s=DEADLINE_S)
        await self._serve()

    async def _serve(self) -> None:
        leader = await self.leader()
        profile = {"engine": "fake", "cores": 1.0}
        await leader.call(
            "POST", "/api/v1/models", {"name": MODEL, "source": WEIGHTS, "min": 2, "max": 2, "profile": profile}
        )
        await leader.until(lambda: leader.get("/api/v1/summary").get("replicas", {}).get("ready") == 2)  # noqa: PLR2004 - asked for above
        traffic = Traffic(self.api_key)
        for gateway in self.gateways:
            async with asyncio.timeout(DEADLINE_S):
                while await traffic.once(gateway.port, stream=False) is not None:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)
        await traffic.close()

    async def _join_all(self) -> dict[str, ssl.SSLContext]:
        """Have every fake node join as a real one does; empty without TLS."""
        contexts: dict[str, ssl.SSLContext] = {}
        if self._authority_secret is None:
            return contexts
        first = self.servers[0]
        for number in range(1, self._agents + 1):
            who = Identity(part=Part.NODE, name=f"fake-{number:03}")
            made = await first.call("POST", "/api/v1/join-tokens", {"part": who.part, "name": who.name})
            found = await join([first.agent_address], read_ticket(made["token"]), who)
            folder = self._folder / "nodes" / who.name
            write_identity(folder, key=found.key, certificate=found.certificate, authority=found.authority)
            contexts[who.name] = TlsIdentity(folder, join="").dialling()
        return contexts

    def _trusting(self) -> ssl.SSLContext | bool:
        if self._authority_secret is None:
            return True
        return ssl.create_default_context(cafile=str(self.servers[0].authority))

    def _write_secrets(self, data: Path) -> None:
        data.mkdir(parents=True, mode=0o700)
        if self._authority_secret is not None:
            write_secret(data, self._authority_secret)  # as if each had joined
        (data / "agent-token").write_text(self._agent_token)
        credentials = {"api_key": self.api_key, "admin_token": self._admin_token}
        (data / "credentials.json").write_text(json.dumps(credentials))


class Traffic:
    """Requests one after the other, and every failure."""

    def __init__(self, api_key: str) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=60), headers={"authorization": f"Bearer {api_key}"}
        )

    async def run(self, port: int) -> None:
        """Ask until cancelled."""
        stream = False
        while True:
            stream = not stream
            failure = await self.once(port, stream=stream)
            if failure is None:
                self.answered += 1
            else:
                self.failures.append(failure)
            await asyncio.sleep(PAUSE_S)

    async def once(self, port: int, *, stream: bool, model: str = MODEL) -> str | None:
        """Make one request; gives what went wrong."""
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "count"}],
            "max_tokens": _PARTS_PER_ANSWER,
            "stream": stream,
        }
        try:
            async with self._session.post(url, json=body) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return repr(error)
        if answer.status != 200:  # noqa: PLR2004 - an HTTP status is its own name
            return f"{answer.status}: {text[:300]}"
        whole = text.rstrip().endswith("data: [DONE]") if stream else bool(json.loads(text)["choices"])
        return None if whole else f"cut short: {text[-100:]!r}"

    async def more(self, count: int) -> None:
        """Wait for so many more answers."""
        goal = self.answered + count
        async with asyncio.timeout(DEADLINE_S):
            while self.answered < goal:  # noqa: ASYNC110 - a counter that several tasks raise
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


async def _leads(session: aiohttp.ClientSession, root: str) -> bool:
    try:
        async with session.get(f"{root}/leader") as answer:
            return answer.status == 200  # noqa: PLR2004 - the same
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
