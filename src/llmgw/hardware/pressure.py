"""Pressure stall information: how long tasks waited for processors, memory and disks.

It is the machine's, also where a control group limits us: whoever causes the waiting, our engines wait too.
"""

from pathlib import Path

from llmgw.hardware.proc import PROC
from llmgw.schema.report import Pressure


def parse_pressure(text: str) -> float | None:
    """Give the share of the last 10 s in which some task waited, in percent, of one file of /proc/pressure."""
    for line in text.splitlines():
        kind, *fields = line.split()
        values = dict(field.partition("=")[::2] for field in fields)
        if kind == "some" and "avg10" in values:
            return float(values["avg10"])
    return None


def read(*, proc: Path = PROC) -> Pressure | None:
    """Look at this machine; `None` when its kernel does not tell."""
    found = Pressure(
        cpu_percent=_read(proc / "pressure" / "cpu"),
        memory_percent=_read(proc / "pressure" / "memory"),
        io_percent=_read(proc / "pressure" / "io"),
    )
    return found if found != Pressure() else None


def _read(path: Path) -> float | None:
    try:
        return parse_pressure(path.read_text())
    except (OSError, ValueError):
        return None  # no PSI in the kernel, or off (`psi=0`): then reading fails
