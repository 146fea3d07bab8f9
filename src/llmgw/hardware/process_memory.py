"""Resident memory of processes, by kind: as `status` counts it, and as `smaps_rollup` splits what is shared."""

from pathlib import Path

from llmgw.hardware.memory import parse_meminfo
from llmgw.hardware.proc import PROC
from llmgw.schema.value import Value


class Resident(Value, frozen=True, kw_only=True):
    """Memory of one process, or of several summed up, in bytes."""

    total_bytes: int
    anonymous_bytes: int | None
    """Not backed by files, shared memory included; `None` where the kernel does not tell kinds apart."""


def parse_status(text: str) -> Resident | None:
    """Give RSS by kind from `/proc/<pid>/status`; `None` for what has no memory of its own (zombie, kernel thread)."""
    values = parse_meminfo(text)
    if "RssAnon" in values:
        anonymous = values["RssAnon"] + values.get("RssShmem", 0)
        return Resident(total_bytes=anonymous + values.get("RssFile", 0), anonymous_bytes=anonymous)
    if "VmRSS" in values:  # before Linux 4.5
        return Resident(total_bytes=values["VmRSS"], anonymous_bytes=None)
    return None


def parse_rollup(text: str) -> Resident | None:
    """Give PSS from `/proc/<pid>/smaps_rollup`; `None` where it is not told.

    Kernels before 5.9 do not split PSS by kind. They tell the anonymous part in whole pages, of which few are shared.
    """
    values = parse_meminfo(text)
    pss = values.get("Pss")
    if pss is None:
        return None
    if "Pss_Anon" in values:
        return Resident(total_bytes=pss, anonymous_bytes=values["Pss_Anon"] + values.get("Pss_Shmem", 0))
    anonymous = values.get("Anonymous")
    return Resident(total_bytes=pss, anonymous_bytes=None if anonymous is None else min(anonymous, pss))


def read_rss(pid: int, *, proc: Path = PROC) -> Resident | None:
    """Read one process's RSS: cheap, whatever its size. `None` when it is gone."""
    return parse_status(_read(proc / str(pid) / "status"))


def read_pss(pid: int, *, proc: Path = PROC) -> Resident | None:
    """Read one process's PSS, which walks its page tables. `None` when it is gone, or another user's."""
    return parse_rollup(_read(proc / str(pid) / "smaps_rollup"))


def summed(parts: list[Resident]) -> Resident:
    """Add processes up; the anonymous part is unknown when that of one is."""
    anonymous = [part.anonymous_bytes for part in parts if part.anonymous_bytes is not None]
    return Resident(
        total_bytes=sum(part.total_bytes for part in parts),
        anonymous_bytes=sum(anonymous) if len(anonymous) == len(parts) else None,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
