"""Processes as /proc shows them: identity, state, processor time, group membership."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

from llmgw.schema.value import Value

PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36
GONE_STATES = frozenset("ZXx")
"""Zombie and dead: nothing of the process is left but its exit status."""
STOPPED_STATES = frozenset("Tt")
"""Stopped by a signal or a tracer."""


class ProcessStat(Value, frozen=True, kw_only=True):
    """What matters of `/proc/<pid>/stat`."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    cpu_ticks: int
    """Processor time of the process and of its ended, waited-for children, in clock ticks."""
    waited_ticks: int
    """The children's part of it: their whole lives, charged at once when they were waited for."""
    resident_pages: int
    start_ticks: int
    """Start time in ticks since boot (field 22): with the boot id it names a process for good."""

    @property
    def own_ticks(self) -> int:
        """Processor time of the process itself."""
        return self.cpu_ticks - self.waited_ticks

    @property
    def gone(self) -> bool:
        """True for a zombie."""
        return self.state in GONE_STATES

    @property
    def stopped(self) -> bool:
        """True while a signal or a tracer holds it."""
        return self.state in STOPPED_STATES


def parse_stat(text: str) -> ProcessStat:
    """Parse one stat file. The name may hold spaces and parentheses, so it ends at the last `)`."""
    pid, _, rest = text.partition(" (")
    name, _, tail = rest.rpartition(") ")
    fields = tail.split()
    return ProcessStat(
        pid=int(pid),
        name=name,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_ticks=sum(int(field) for field in fields[11:15]),
        waited_ticks=sum(int(field) for field in fields[13:15]),
        resident_pages=int(fields[21]),
        start_ticks=int(fields[19]),
    )


def read_stat(pid: int, *, proc: Path = PROC) -> ProcessStat | None:
    """Read one process; `None` when there is none. A zombie is there, and `gone`."""
    try:
        return parse_stat((proc / str(pid) / "stat").read_text(errors="replace"))
    except (OSError, ValueError, IndexError):
        return None  # it ended before or while we read


def processes(*, proc: Path = PROC) -> Iterator[ProcessStat]:
    """Read all processes, zombies included."""
    for entry in proc.glob("[0-9]*"):
        stat = read_stat(int(entry.name), proc=proc)
        if stat is not None:
            yield stat


def environment(pid: int, *, proc: Path = PROC) -> dict[str, str]:
    """Give the environment the process was started with; empty where we may not look."""
    try:
        entries = (proc / str(pid) / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return {name: value for name, separator, value in (entry.partition("=") for entry in entries) if separator}


def become_subreaper() -> None:
    """Have orphans among our descendants become our children, so that they can be waited for."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def boot_id(*, proc: Path = PROC) -> str:
    """Give the id of this boot of the machine."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def place(*, proc: Path = PROC) -> str:
    """Boot id and network namespace: processes that share it reach each other's loopback."""
    return f"{boot_id(proc=proc)}:{(proc / 'self/ns/net').stat().st_ino}"
