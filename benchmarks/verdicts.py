"""What the figures of a run must hold, in that run."""

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

Line = dict[str, Any]

TARGETS = ("llmgw", "llmgw in a fleet")
SOONER = 0.6
"""Mean time to first token over that of going round, at most (spec section 15)."""
HITS = {"conversation": 0.74, "synthetic": 0.57}
"""Share of the best possible hits, at least."""
KEPT = 0.9
"""Share of one gateway's hits that four of them keep, at least."""


def overhead(lines: Iterable[Line]) -> Iterator[Line]:
    """Compare what the gateway spent with what it may spend."""
    several = tuple(lines)
    request = _medians(several, "c16", "cpu_us")
    chunk = _medians(several, "stream", "chunk_cpu_us")
    for name in TARGETS:
        if name in request and "sglang-router" in request:
            yield _most(name, "cpu_us_per_request_c16", request[name], request["sglang-router"], "sglang-router's")
        if name in chunk and "nginx" in chunk:
            yield _most(name, "cpu_us_per_chunk", chunk[name], 2 * chunk["nginx"], "twice nginx's")


def replay(lines: Iterable[Line]) -> Iterator[Line]:
    """Compare waits and hits on a trace with those of the others, and with what is possible."""
    rows = {(line["trace"], line["router"], line["copies"]): line for line in lines if "router" in line}
    for (trace, router, copies), row in rows.items():
        if router != "llmgw":
            continue
        name = f"llmgw x{copies}, {trace}"
        wait = row["ttft mean ms"]
        for peer, share, meaning in (
            ("nginx", SOONER, "six tenths of going round"),
            ("sglang-router", 1.0, "sglang-router's"),
            ("smg", 1.0, "smg's"),
        ):
            beside = rows.get((trace, peer, copies))
            if beside is not None:
                yield _most(name, "mean_ttft_ms", wait, share * beside["ttft mean ms"], meaning)
        best = HITS[trace] * row["best"]
        yield _least(name, "hit", row["hit"], best, f"{HITS[trace]:.0%} of the best possible {row['best']}")
        one = rows.get((trace, router, 1))
        if copies > 1 and one is not None:
            yield _least(name, "hit", row["hit"], KEPT * one["hit"], "nine tenths of one gateway's")
        yield _most(name, "errors", row["errors"], 0, "none")


def _most(target: str, what: str, value: float, limit: float, meaning: str) -> Line:
    return _verdict(target, what, value, limit, meaning, bound="at most", held=value <= limit)


def _least(target: str, what: str, value: float, limit: float, meaning: str) -> Line:
    return _verdict(target, what, value, limit, meaning, bound="at least", held=value >= limit)


def _verdict(target: str, what: str, value: float, limit: float, meaning: str, *, bound: str, held: bool) -> Line:
    digits = 3 if limit < 1 else 1
    return {
        "target": target,
        "verdict": what,
        "value": round(value, digits),
        "bound": bound,
        "limit": round(limit, digits),
        "limit_is": meaning,
        "held": held,
    }


def _medians(lines: Iterable[Line], measure: str, figure: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for line in lines:
        if line.get("measure") == measure:
            values.setdefault(line["target"], []).append(line[figure])
    return {target: statistics.median(several) for target, several in values.items()}
