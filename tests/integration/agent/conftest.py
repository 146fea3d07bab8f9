"""Two harnesses: a supervisor over small scripts that misbehave as told, and a real agent process with real engines."""

import asyncio
import contextlib
import subprocess
import sys
import uuid
from pathlib import Path

import aiohttp
import msgspec
import pytest

from llmgw.agent import process_group
from llmgw.agent.engine_run import EngineTools
from llmgw.agent.local_state import LocalState
from llmgw.agent.supervise import Supervisor
from llmgw.engines.adapter import Launch, Started
from llmgw.hardware.cgroup import unified_mount
from llmgw.hardware.mounts import read_mounts
from llmgw.schema.desired import DesiredState, Mode
from llmgw.schema.errors import InvalidInput
from llmgw.schema.replica import ShardPhase
from llmgw.schema.report import Death
from llmgw.telemetry.clock import SystemClock
from llmgw.testing.engine_process import shard_for
from llmgw.testing.fake_control import FakeControl
from llmgw.testing.gguf import write_counting_model

ENGINE = Path(__file__).parent / "engine_script.py"
DYING = Path(__file__).parent / "dying_agent.py"


class ScriptAdapter:
    """Runs the script beside this file; a shard's source names its faults."""

    def launch(self, shard, *, log_verbosity):
        if "bad_flag" in shard.source:
            raise InvalidInput("unknown flag --moon", field="flags")
        program = "/nowhere/python" if "no_program" in shard.source else sys.executable
        settings = {"key": shard.key, "model": shard.model, "faults": shard.source}
        return Launch(argv=(program, str(ENGINE), shard.id), env={}, stdin=msgspec.json.encode(settings))

    def paths(self, role):
        return frozenset({"/v1/chat/completions"})

    def starting(self, log_text):
        return "loading" if "loading" in log_text else None

    def ready_line(self, log_text):
        lines = [line for line in log_text.splitlines() if line.startswith("READY ")]
        return msgspec.json.decode(lines[0][6:], type=Started) if lines else None

    def failure(self, status, log_text):
        line = next((line for line in log_text.splitlines() if line.startswith("E ")), None)
        return Death(status=status, asked=False, cause=line or "ended", log_line=line)


class Node:
    """One agent's supervisor, which can be ended and begun again over the same folder."""

    def __init__(self, root, mount):
        self.state = LocalState(str(root))
        self.mount = mount
        self.start_timeout_s = 30.0
        self.generation = 0
        self.phases = []

    @contextlib.asynccontextmanager
    async def running(self):
        self.state.open()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            tools = EngineTools(
                state=self.state,
                adapter=lambda kind: ScriptAdapter(),
                session=session,
                clock=SystemClock(),
                cgroup_mount=self.mount,
                start_timeout_s=self.start_timeout_s,
                verbosity=2,
            )
            self.supervisor = Supervisor(tools, self._changed)
            task = asyncio.create_task(self.supervisor.run(tuple))
            try:
                await self.supervisor.adopted.wait()
                yield self
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                self.state.close()

    def order(self, *shards, mode=Mode.ENFORCE):
        self.generation += 1
        self.supervisor.order(DesiredState(epoch=1, holder="h", generation=self.generation, mode=mode, shards=shards))

    def report(self, shard):
        return next((one for one in self.supervisor.reports() if one.id == shard.id), None)

    async def until(self, shard, phase, attempt=None, within_s=40.0):
        async with asyncio.timeout(within_s):
            while True:
                report = self.report(shard)
                if (report and report.phase) == phase and attempt in (None, report and report.attempt):
                    return report
                await asyncio.sleep(0.02)

    def _changed(self):
        self.phases += [one.phase for one in self.supervisor.reports()]


@pytest.fixture(params=["control group", "session"])
def node(request, tmp_path):
    """Both ways to hold a group together; afterwards nothing may be left of any."""
    mount = unified_mount(read_mounts()) if request.param == "control group" else None
    if mount is None and request.param == "control group":
        pytest.skip("no writable cgroup2 mount here")
    node = Node(tmp_path / "agent", mount)
    yield node
    for record in node.state.records():
        if record.identity is not None:
            asyncio.run(process_group.destroy(record.identity, leader_known=True))
    process_group.reap_strays(())


@pytest.fixture
def make_shard():
    name = f"r{uuid.uuid4().hex[:10]}"

    def make(*, attempt=1, faults="none", grace_s=5.0):
        shard = shard_for(faults, grace_s=grace_s)
        return msgspec.structs.replace(shard, id=f"{name}.0", replica=name, attempt=attempt)

    return make


class Machine:
    """One node: its folder, its control plane, its agent."""

    def __init__(self, root, control):
        self.root = root
        self.control = control
        self.model = root / "weights" / "counting.gguf"
        self.agent = None
        self._name = f"r{uuid.uuid4().hex[:10]}"

    def prepare(self):
        self.model.parent.mkdir()
        write_counting_model(self.model)
        (self.root / "token").write_text("agent-token\n")
        (self.root / "agent.toml").write_text(
            f"""
            node_id = "n1"
            data_dir = "{self.root}/data"
            servers = ["{self.control.address}"]
            token_file = "{self.root}/token"
            weights_dirs = ["{self.root}/weights"]
            door_listen = "127.0.0.1:0"
            heartbeat_s = 1.0
            """
        )

    def argv(self, *more):
        return [sys.executable, "-m", "llmgw", *self.arguments(), *more]

    def arguments(self):
        return ["agent", "--config", str(self.root / "agent.toml")]

    async def command(self, *more):
        """Run the agent's command to its end; gives status and output."""

        def run():
            return subprocess.run(self.argv(*more), capture_output=True, text=True, timeout=60, check=False)

        done = await asyncio.to_thread(run)
        return done.returncode, done.stdout + done.stderr

    async def start(self, *, dying_at=None):
        """Start the agent; `dying_at` names the step of a start at which it kills itself."""
        hellos = len(self.control.hellos)
        argv = self.argv() if dying_at is None else [sys.executable, str(DYING), dying_at, *self.arguments()]
        with (self.root / "agent.log").open("a") as output:
            self.agent = subprocess.Popen(argv, stdout=output, stderr=output)  # noqa: ASYNC220 - returns at once
        await self.control.until(lambda: len(self.control.hellos) > hellos and self.control.connected)

    async def end(self, number):
        self.agent.send_signal(number)
        status = await asyncio.to_thread(self.agent.wait, 30)
        await self.control.until(lambda: not self.control.connected)
        return status

    def shard(self, attempt=1):
        shard = shard_for(self.model, grace_s=5.0)
        return msgspec.structs.replace(shard, id=f"{self._name}.0", replica=self._name, attempt=attempt)

    async def until(self, phase, attempt=1, *, shard=None):
        name = (shard or self.shard()).id

        def there():
            report = self.control.reports.get(name)
            return report is not None and (report.phase, report.attempt) == (phase, attempt)

        await self.control.until(there, within_s=60)
        return self.control.reports[name]

    def weights(self, *, zero_layers):
        """Write a model that counts to 2,000, slowed down by layers."""
        path = self.root / f"braked-{zero_layers}.gguf"
        write_counting_model(path, last=2000, zero_layers=zero_layers, ff_width=8192)
        return path

    async def serve(self, attempt=1):
        self.control.order([self.shard(attempt)])
        return await self.until(ShardPhase.READY, attempt)


@pytest.fixture
async def machine(tmp_path):
    async with FakeControl() as control:
        machine = Machine(tmp_path, control)
        machine.prepare()
        try:
            yield machine
        finally:
            if machine.agent is not None and machine.agent.poll() is None:
                machine.agent.kill()
                machine.agent.wait()
            status, output = await machine.command("--stop-engines")
            assert status == 0, output
