"""Keeps server, gateway and agent of one machine running, as a process of its own.

It is a subreaper, so that engines of a dead agent become its children and never zombies for good. Its own death
stops nothing: the next supervisor adopts what runs.
"""

import asyncio
import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from llmgw.schema.errors import LlmgwError
from llmgw.telemetry import log
from llmgw.up.layout import Layout
from llmgw.up.process import Process, alive, identify
from llmgw.up.shutdown import shut_down
from llmgw.up.state import UpState, read_state, write_state

CHILDREN = ("server", "agent", "gateway")
_PR_SET_CHILD_SUBREAPER = 36
_BACKOFF_FIRST_S = 0.2
_BACKOFF_MAX_S = 5.0
_STEADY_S = 10.0
"""A process that lived this long is started again at once."""


def spawn(argv: list[str], log_file: Path, *, keep_fd: int | None = None) -> int:
    """Start a process in a session of its own, output appended to `log_file`; gives its pid."""
    log_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if keep_fd is not None:
        os.set_inheritable(keep_fd, True)
    return os.posix_spawn(
        argv[0],
        argv,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log_file), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTERM),
    )


class Supervisor:
    """Level-triggered: each child is looked at through its pidfd and started again when it is gone."""

    def __init__(self, layout: Layout, state: UpState) -> None:
        self._layout = layout
        self._state = state
        self._stopping = asyncio.Event()
        self._unsaved = False
        self._log = log.get(__name__)

    async def run(self) -> None:
        """Supervise until SIGTERM or SIGINT, then stop everything."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self._save(supervisor=identify("supervisor", os.getpid()))
        keepers = [loop.create_task(self._keep(name)) for name in CHILDREN]
        keepers.append(loop.create_task(self._keep_state()))
        try:
            await self._stopping.wait()
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
        self._log.info("up.stopping")
        try:
            await asyncio.to_thread(shut_down, self._layout, self._state)
        except LlmgwError as error:
            self._log.error("up.not_stopped", error=error.message, hint=error.hint)
            return
        self._log.info("up.stopped")

    async def _keep(self, name: str) -> None:
        backoff = _BACKOFF_FIRST_S
        while True:
            process = self._running(name)
            if process is None:
                try:
                    process = self._start(name)
                except OSError as error:  # a full disk, no more processes: both may pass
                    self._log.warning("process.not_started", name=name, error=str(error))
                    await asyncio.sleep(_BACKOFF_MAX_S)
                    continue
            else:
                self._log.info("process.adopted", name=name, pid=process.pid)
            since = time.monotonic()
            await _gone(process)
            lived = time.monotonic() - since
            self._log.warning("process.ended", name=name, pid=process.pid, lived_s=round(lived, 1))
            if lived > _STEADY_S:
                backoff = _BACKOFF_FIRST_S
                continue
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _BACKOFF_MAX_S)

    def _running(self, name: str) -> Process | None:
        known = next((child for child in self._state.children if child.name == name), None)
        return known if known is not None and alive(known) else None

    def _start(self, name: str) -> Process:
        argv = [sys.executable, "-m", "llmgw", name, "--config", str(self._layout.config(name))]
        pid = spawn(argv, self._layout.log(name))
        process = identify(name, pid) or Process(name=name, pid=pid, start_time=0, boot_id="")
        others = tuple(child for child in self._state.children if child.name != name)
        self._save(children=(*others, process))
        self._log.info("process.started", name=name, pid=pid)
        return process

    def _save(self, **changes: object) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)
        self._write()

    async def _keep_state(self) -> None:
        """Write what found no room, once there is: the next supervisor adopts by it."""
        while True:
            await asyncio.sleep(_BACKOFF_MAX_S)
            if self._unsaved:
                self._write()

    def _write(self) -> None:
        try:
            write_state(self._layout.state, self._state)
        except OSError as error:
            if not self._unsaved:
                self._log.error("up.state_unsaved", path=str(self._layout.state), error=str(error))
            self._unsaved = True
        else:
            self._unsaved = False

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


async def _gone(process: Process) -> None:
    """Wait until a process is gone. A pidfd is readable from then on; adopted processes are no children."""
    if not alive(process):
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def main() -> None:
    """Run the supervisor for the data folder in argv; the lock comes open, as the file descriptor in argv."""
    layout = Layout(root=Path(sys.argv[1]))
    os.set_inheritable(int(sys.argv[2]), False)  # children must not keep the lock alive
    log.configure(level="info", style="json", process="supervisor")
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    state = read_state(layout.state)
    if state is None:
        raise LlmgwError(f"no state in {layout.state}", hint="start with: llmgw up")
    asyncio.run(Supervisor(layout, state).run())


if __name__ == "__main__":
    main()
