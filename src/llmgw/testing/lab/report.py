"""The report of the long form of the laboratory, as a page of the documentation. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

_HOW = {"stop": "stopped (SIGTERM)", "kill": "killed (kill -9)", "freeze": "frozen (SIGSTOP)"}
_PROMISED_AGENTS = 200
_PROMISED = {"stop": "4 s", "kill": "10 s"}
"""Until another control plane leads with all of so many agents, at p95."""

Record = Mapping[str, object]


def render(records: Mapping[str, Record], *, machine: str, at: datetime) -> str:
    """Give the page. Records of one kind are told in order of their names."""
    lines = [
        "# What happens when the leader goes away, measured",
        "",
        f"Written by `make lab-long` on {at:%Y-%m-%d} on {machine}.",
        "Control planes, gateways, agents, databases and clients share these cores. Seconds from the signal; p50, p95",
        "and max are nearest-rank.",
        "",
        *_takeovers(_of_kind(records, "takeover")),
        *_gaps(_of_kind(records, "floating")),
        *_kills(_of_kind(records, "kills")),
    ]
    return "\n".join(lines).rstrip() + "\n"


def share(values: Sequence[float], share: float) -> float:
    """Give the nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, -(-round(share * 1000) * len(ordered) // 1000) - 1)]


def _of_kind(records: Mapping[str, Record], kind: str) -> list[Record]:
    return [record for record in records.values() if record["kind"] == kind]


def _takeovers(found: Sequence[Record]) -> Iterator[str]:
    if not found:
        return
    yield "## Another control plane leads"
    yield ""
    yield "Real processes on one PostgreSQL, a gateway beside each control plane, requests through all gateways all the"
    yield "while. The promise is for 200 agents, at p95, until the new leader has all of them."
    yield ""
    yield "| the leader is | agents | trials | until | p50 | p95 | max | promised |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for record in found:
        how, agents = str(record["how"]), record["agents"]
        who = f"{agents}, mutual TLS" if record.get("tls") else str(agents)
        for name, values in _series(record):
            is_promise = name == "all agents attached" and agents == _PROMISED_AGENTS
            promised = _PROMISED.get(how, "") if is_promise else ""
            yield f"| {_HOW[how]} | {who} | {len(values)} | {name} | {_percentiles(values)} | {promised} |"
    yield ""
    answered = sum(_int(record["answered"]) for record in found)
    failed = sum(_int(record["failed"]) for record in found)
    starts = sum(_int(record["engine_starts"]) for record in found)
    yield f"Requests through the gateways meanwhile: {answered} answered, {failed} failed. Engines started: {starts}."
    yield ""


def _gaps(found: Sequence[Record]) -> Iterator[str]:
    if not found:
        return
    yield "## The gap through the floating address"
    yield ""
    yield "Three hosts with real etcd, Patroni and keepalived; the address moves with the lead. A client asks one"
    yield "question after the other through it, every second one as a stream, and gives up a connection after 0.5 s and"
    yield "an answer after 2 s. An interruption is a time in which answers ceased to come: where there is one, it is"
    yield "the gap itself, and nothing else was lost."
    yield ""
    yield "| the leader is | trials | p50 | p95 | max | interruptions, most in a trial | answered | failed in the gap |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for record in found:
        values = _floats(record["gaps"])
        counts = " | ".join(str(record[name]) for name in ("interruptions", "answered", "failed"))
        yield f"| {_HOW[str(record['how'])]} | {len(values)} | {_percentiles(values)} | {counts} |"
    yield ""


def _kills(found: Sequence[Record]) -> Iterator[str]:
    if not found:
        return
    yield "## Random kills"
    yield ""
    yield "kill -9 of a random process of the whole system at a random moment, under load: control planes, gateways,"
    yield "keepalived, Patroni, etcd. The checker looks for acknowledged writes that are gone, refused ones that are"
    yield "there, epochs with two holders, and nodes that obeyed two. A run passes only when no replica was placed"
    yield "twice or restarted either, and no process was left over."
    yield ""
    yield "| seed | kills | writes acknowledged | unknown | answers | broken with their gateway | faults found |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for record in found:
        names = ("seed", "kills", "acknowledged", "unknown", "answers", "failed", "faults")
        yield f"| {' | '.join(str(record[name]) for name in names)} |"
    yield ""


def _series(record: Record) -> Iterator[tuple[str, list[float]]]:
    series = record["series"]
    if not isinstance(series, dict):
        raise TypeError(f"series are {series!r}")
    for name, values in series.items():
        yield str(name), _floats(values)


def _floats(values: object) -> list[float]:
    if not isinstance(values, list):
        raise TypeError(f"no list of figures: {values!r}")
    return [float(value) for value in values]


def _int(value: object) -> int:
    return int(str(value))


def _percentiles(values: Sequence[float]) -> str:
    return f"{share(values, 0.5):.2f} s | {share(values, 0.95):.2f} s | {max(values):.2f} s"
