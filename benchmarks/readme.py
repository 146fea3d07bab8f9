"""The tables of a run, for people: on a terminal and in benchmarks/README.md."""

import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

BEGIN = "<!-- written by `make bench BENCH_ARGS=--write` -->"
END = "<!-- end -->"

Line = Mapping[str, Any]


def sections(
    table: Sequence[str],
    traces: Mapping[str, Sequence[str]],
    micro: Iterable[Line],
    verdicts: Iterable[Line],
    versions: Mapping[str, str],
) -> str:
    """Give the tables of a run as Markdown, with its date and machine."""
    parts = [f"Measured on {datetime.now(UTC):%Y-%m-%d}: {machine(versions)}."]
    if table:
        parts.append("\n".join(table))
    for trace, rows in traces.items():
        parts.append(f"The Mooncake {trace} trace on eight engines:")
        parts.append("\n".join(rows))
    told = [_verdict(verdict) for verdict in verdicts]
    if told:
        parts.append("\n".join(told))
    rows = [_row(line) for line in micro]
    if rows:
        head = ["| alone | measured | connections | value |", "| --- | --- | --- | --- |"]
        parts.append("\n".join(head + rows))
    return "\n\n".join(parts)


def write(readme: Path, text: str) -> None:
    """Put the tables where the README keeps them."""
    before, _, rest = readme.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def machine(versions: Mapping[str, str]) -> str:
    """Describe this machine and what runs on it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    own = {"Python": platform.python_version(), "uvloop": version("uvloop")}
    told = ", ".join(f"{name} {number}" for name, number in sorted({**versions, **own}.items()))
    return (
        f"{len(os.sched_getaffinity(0))} cores of {_processor()}, {memory:.0f} GiB, {_system()},"
        f" {platform.system()} {platform.release()}; load average {os.getloadavg()[0]:.1f} at the end; {told}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return sys.platform


def _verdict(verdict: Line) -> str:
    word = "held" if verdict["held"] else "MISSED"
    limit = f"{verdict['bound']} {verdict['limit']}, {verdict['limit_is']}"
    return f"- {verdict['target']}: {verdict['verdict'].replace('_', ' ')} is {verdict['value']} ({limit}): {word}"


def _row(line: Line) -> str:
    if "ratio" in line:
        what = f"p99 ms beside {line['slow_clients']} slow clients (without: {line['without']}; ratio {line['ratio']})"
        return f"| {line['target']} | {what} | 32 | {line['value']} |"
    return f"| {line['target']} | {line['what'].replace('_', ' ')} | {line['connections']} | {line['value']} |"
