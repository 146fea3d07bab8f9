"""Processes by identity: a pid alone is reused, a pid with its start time and boot id is not."""

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path

from llmgw.schema.value import Value

_STAT_START_TIME = 19
"""Field 22 of /proc/PID/stat, counted after the command's closing parenthesis (proc(5))."""
_STAT_STATE = 0


class Process(Value, frozen=True, kw_only=True):
    """One process of ours."""

    name: str
    pid: int
    start_time: int
    """Clock ticks after boot."""
    boot_id: str


def boot_id() -> str:
    """Give this boot's id."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def identify(name: str, pid: int) -> Process | None:
    """Give the identity of a running process; `None` when it is gone (a zombie counts as gone)."""
    fields = _stat(pid)
    if fields is None:
        return None
    return Process(name=name, pid=pid, start_time=int(fields[_STAT_START_TIME]), boot_id=boot_id())


def alive(process: Process) -> bool:
    """True while this very process runs."""
    return identify(process.name, process.pid) == process


def stop(process: Process, *, grace_s: float) -> bool:
    """Ask a process to end, wait, then kill its group. True when it ended within `grace_s` seconds."""
    if not alive(process):
        return True
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGTERM)
    if wait_gone(process, timeout_s=grace_s):
        return True
    for target in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            target(process.pid, signal.SIGKILL)
    wait_gone(process, timeout_s=5.0)
    return False


def wait_gone(process: Process, *, timeout_s: float) -> bool:
    """Wait until a process is gone; True when it is."""
    deadline = time.monotonic() + timeout_s
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return True
    try:
        while alive(process):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            # A pidfd becomes readable when the process ends; the short step covers a parent that reaps late.
            select.select([handle], [], [], min(left, 0.2))
        return True
    finally:
        os.close(handle)


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[_STAT_STATE] in {"Z", "X"} else fields
