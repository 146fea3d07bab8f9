"""A real control plane on SQLite with a fleet of fake nodes over the real protocol, and the real `llmgw ctl`."""

import asyncio
import contextlib
import os
import sys

import pytest

from llmgw.testing.fake_nodes import FakeFleet
from llmgw.testing.server_process import ServerProcess

SHARED = "/models/shared.gguf"


class Fleet:
    """What tests do with it."""

    def __init__(self, server):
        self.server = server
        self.fakes = None

    @contextlib.asynccontextmanager
    async def of(self, *groups, heartbeat_s=1.0):
        """Let nodes join."""
        server = self.server
        fakes = FakeFleet(groups, server=server.agent_address, token=server.agent_token, heartbeat_s=heartbeat_s)
        async with fakes:
            await fakes.joined()
            self.fakes = fakes
            yield fakes

    async def serve(self, name, replicas=1, **profile):
        profile = {"engine": "fake", "cores": 1.0, **profile}
        body = {"name": name, "source": SHARED, "min": replicas, "max": replicas, "profile": profile}
        await self.server.call("POST", "/api/v1/models", body)

    async def ready(self, count):
        """Wait until exactly so many replicas are ready and no other one is there."""
        await self.server.until(lambda: self._counts() == {"ready": count})

    def _counts(self):
        counts = self.server.get("/api/v1/summary").get("replicas", {})
        return {state: count for state, count in counts.items() if count}

    async def replicas(self):
        """Give all replicas by id."""
        return {row["id"]: row for row in (await self.server.call("GET", "/api/v1/replicas"))["replicas"]}

    def nodes(self, state):
        """Name the nodes in a state; blocks."""
        return {row["id"] for row in self.server.get("/api/v1/nodes").get("nodes", ()) if row["state"] == state}

    async def node(self, name):
        return await self.server.call("GET", f"/api/v1/nodes/{name}")

    async def events(self, kind):
        """Give the events of a kind, the oldest first."""
        found = (await self.server.call("GET", "/api/v1/events?limit=1000"))["events"]
        return sorted((event for event in found if event["kind"] == kind), key=lambda event: event["at"])

    async def ctl(self, *arguments):
        """Run the real `llmgw ctl`; gives what it printed. It must succeed."""
        env = os.environ | {"LLMGW_API": self.server.root, "LLMGW_TOKEN": self.server.admin_token, "COLUMNS": "200"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "llmgw", "ctl", *arguments),
            env=env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()


@pytest.fixture
async def control(tmp_path):
    """Give a fleet's control plane with settings."""
    async with contextlib.AsyncExitStack() as stack:
        made = []

        async def make(**settings):
            made.append(await stack.enter_async_context(ServerProcess(tmp_path, settings=settings)))
            return Fleet(made[-1])

        yield make
        assert all("Traceback" not in server.log() for server in made), made[-1].log()[-4000:]
