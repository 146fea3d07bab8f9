"""A real engine on a tiny model, started as an agent would: for tests and demos."""

import asyncio
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from llmgw.engines.adapter import Adapter, Started
from llmgw.engines.registry import adapter
from llmgw.schema.desired import DesiredShard
from llmgw.schema.model import Profile, Role
from llmgw.schema.plan import Allocation
from llmgw.schema.report import Death

KEY = "le_testtest0123456789abcdefghij"


def shard_for(
    source: Path | str,
    *,
    model: str = "tiny",
    role: Role = Role.CHAT,
    profile: Profile | None = None,
    grace_s: float = 20.0,
    key: str = KEY,
) -> DesiredShard:
    """Make a shard that runs `source`, its profile resolved."""
    wanted = profile or Profile()
    return DesiredShard(
        id="rtesttest00.0",
        replica="rtesttest00",
        model=model,
        rank=0,
        attempt=1,
        key=key,
        role=role,
        source=str(source),
        profile=adapter(wanted.engine).resolve(wanted, role, None, None),
        allocation=Allocation(node="here"),
        grace_s=grace_s,
    )


class EngineProcess:
    """One engine with its log. As a context manager it is killed, with its group, at the end.

    with EngineProcess(shard_for(path)) as engine:
        started = await engine.started()
    """

    def __init__(self, shard: DesiredShard, *, log_verbosity: int = 2, log: Path | None = None) -> None:
        self.shard = shard
        self.adapter: Adapter = adapter(shard.profile.engine)
        launch = self.adapter.launch(shard, log_verbosity=log_verbosity)
        # Closed when the engine is: it lives as long.
        self._log = tempfile.TemporaryFile() if log is None else log.open("a+b")  # noqa: SIM115 - as said
        self.process = subprocess.Popen(
            launch.argv,
            env={**os.environ, **launch.env},
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        assert self.process.stdin is not None, "a pipe was asked for"  # noqa: S101 - for the type checker
        self.process.stdin.write(launch.stdin)
        self.process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def log_text(self) -> str:
        """All that the engine wrote so far."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    async def started(self, *, deadline_s: float = 30.0) -> Started:
        """Wait until the engine says where it listens. Raises `RuntimeError` with its log when it ended instead."""
        end = time.monotonic() + deadline_s
        while time.monotonic() < end and self.process.poll() is None:
            found = self.adapter.ready_line(self.log_text)
            if found is not None:
                return found
            await asyncio.sleep(0.01)
        raise RuntimeError(f"the engine did not start (status {self.process.poll()}); its log:\n{self.log_text}")

    async def ended(self, *, deadline_s: float = 30.0) -> int:
        """Wait for the end; give the exit status, negative for a signal. Raises `TimeoutError`."""
        end = time.monotonic() + deadline_s
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise TimeoutError(f"the engine still runs after {deadline_s:g} s; its log:\n{self.log_text}")
            await asyncio.sleep(0.01)
        return self.process.returncode

    def failure(self) -> Death:
        """Explain the end, as the adapter does."""
        return self.adapter.failure(self.process.poll(), self.log_text)

    def close(self) -> None:
        """Kill what is left and drop the log."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._log.close()
