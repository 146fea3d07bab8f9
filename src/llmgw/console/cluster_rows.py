"""The rows of the Cluster page: each node with its trouble; searched, filtered, sorted. Pure."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from llmgw.console.harm import Harm
from llmgw.console.trouble import Trouble, troubles, why_no_figures
from llmgw.schema.admin.node import NodeRow
from llmgw.schema.node import NodeState
from llmgw.schema.value import Value

CPU_CLASS = "cpu"
"""Class of nodes without devices."""
IN_TROUBLE = "trouble"
"""Beside the states: nodes with something wrong."""
MOST_ROWS = 200
"""Rows on one page."""


class Column(StrEnum):
    """What rows are sorted by; a dash before it turns the order round."""

    TROUBLE = "trouble"
    NAME = "name"
    STATE = "state"
    FABRIC = "fabric"
    CLASS = "class"
    DEVICES = "devices"
    CPU = "cpu"
    MEMORY = "memory"
    REPLICAS = "replicas"
    AGE = "age"


class Query(Value, frozen=True, kw_only=True):
    """What is asked for; empty is all."""

    q: str = ""
    state: str = ""
    fabric: str = ""
    device_class: str = ""
    column: Column = Column.TROUBLE
    descending: bool = False
    page: int = 1

    @property
    def sort(self) -> str:
        """The order as it stands in the address."""
        return ("-" if self.descending else "") + self.column

    @property
    def narrows(self) -> bool:
        """True when it may leave nodes out."""
        return bool(self.q or self.state or self.fabric or self.device_class)


class ClusterRow(Value, frozen=True, kw_only=True):
    """One node."""

    node: NodeRow
    troubles: tuple[Trouble, ...]
    absent: str | None
    """Why its load is unknown."""
    fabrics: tuple[str, ...]
    classes: tuple[str, ...]
    models: tuple[str, ...]
    devices_used: int
    devices_bad: int


class Choice(Value, frozen=True, kw_only=True):
    """One value of a filter, with how many nodes have it."""

    value: str
    count: int


def parse(parameters: Mapping[str, str]) -> Query:
    """Read a query from an address. What means nothing is left out: an old link shows too much, not an error."""
    sort = parameters.get("sort", "")
    column = sort.removeprefix("-")
    known = column in list(Column)
    page = parameters.get("page", "")
    return Query(
        q=parameters.get("q", "").strip(),
        state=parameters.get("state", ""),
        fabric=parameters.get("fabric", ""),
        device_class=parameters.get("class", ""),
        column=Column(column) if known else Column.TROUBLE,
        descending=known and sort.startswith("-"),
        page=int(page) if re.fullmatch(r"[1-9]\d{0,5}", page) else 1,
    )


def cluster_rows(nodes: Iterable[NodeRow], *, leads: bool) -> tuple[ClusterRow, ...]:
    """Make the rows of all nodes."""
    return tuple(_row(node, leads=leads) for node in nodes)


def select(rows: Iterable[ClusterRow], query: Query) -> tuple[ClusterRow, ...]:
    """Give the rows that are asked for, in order. What is unknown stands last in either order."""
    words = query.q.casefold().split()
    found = [row for row in rows if _is_asked_for(row, query) and all(word in _text(row) for word in words)]
    found.sort(key=lambda row: _natural(row.node.id))
    key = _KEYS[query.column]
    known = [row for row in found if key(row) is not None]
    known.sort(key=lambda row: _comparable(key(row)), reverse=query.descending)
    return (*known, *(row for row in found if key(row) is None))


def choices(rows: Sequence[ClusterRow]) -> dict[str, tuple[Choice, ...]]:
    """Give what the filters offer."""
    states = Counter(str(row.node.state) for row in rows)
    in_trouble = sum(bool(row.troubles) for row in rows)
    fabrics = Counter(name for row in rows for name in row.fabrics)
    classes = Counter(name for row in rows for name in row.classes)
    return {
        "state": (
            Choice(value=IN_TROUBLE, count=in_trouble),
            *(Choice(value=state, count=states[state]) for state in NodeState if states[state]),
        ),
        "fabric": _choices(fabrics),
        "class": _choices(classes),
    }


def _row(node: NodeRow, *, leads: bool) -> ClusterRow:
    devices = node.facts.devices
    bad = {device.id for device in devices if device.problem}
    classes = {device.device_class for device in devices} | set(node.facts.device_classes)
    return ClusterRow(
        node=node,
        troubles=troubles(node, leads=leads),
        absent=why_no_figures(node, leads=leads),
        fabrics=tuple(fabric.name for fabric in node.facts.fabrics),
        classes=tuple(sorted(classes)) or (CPU_CLASS,),
        models=tuple(dict.fromkeys(shard.model for shard in node.shards)),
        devices_used=len(set(node.held.devices) & {device.id for device in devices} - bad),
        devices_bad=len(bad),
    )


def _is_asked_for(row: ClusterRow, query: Query) -> bool:
    if query.state == IN_TROUBLE and not row.troubles:
        return False
    if query.state not in {"", IN_TROUBLE, row.node.state}:
        return False
    return query.fabric in {"", *row.fabrics} and query.device_class in {"", *row.classes}


def _text(row: ClusterRow) -> str:
    """Give all that a search looks in."""
    facts = row.node.facts
    labels = (f"{name}={value}" for name, value in facts.labels.items())
    told = (trouble.text for trouble in row.troubles)
    parts = (row.node.id, facts.hostname, facts.address, row.node.state, *row.fabrics, *row.classes, *row.models)
    return "\n".join((*parts, *labels, *told)).casefold()


def _choices(counts: Counter[str]) -> tuple[Choice, ...]:
    return tuple(Choice(value=name, count=counts[name]) for name in sorted(counts, key=_natural))


_Key = float | str | None


def _severity(row: ClusterRow) -> int:
    if row.troubles:
        return list(Harm).index(row.troubles[0].harm)
    return len(Harm) + (row.node.state is NodeState.READY)


def _memory_share(row: ClusterRow) -> float | None:
    load, total = row.node.load, row.node.facts.memory_bytes
    return None if load is None or load.memory_used_bytes is None or not total else load.memory_used_bytes / total


_KEYS: Mapping[Column, Callable[[ClusterRow], _Key]] = {
    Column.TROUBLE: _severity,
    Column.NAME: lambda row: row.node.id,
    Column.STATE: lambda row: str(row.node.state),
    Column.FABRIC: lambda row: ", ".join(row.fabrics) or None,
    Column.CLASS: lambda row: ", ".join(row.classes),
    Column.DEVICES: lambda row: row.devices_used if row.node.facts.devices else None,
    Column.CPU: lambda row: row.node.load.cpu_percent if row.node.load else None,
    Column.MEMORY: _memory_share,
    Column.REPLICAS: lambda row: len(row.node.replicas),
    Column.AGE: lambda row: row.node.load.age_s if row.node.load else None,
}


def _comparable(value: _Key) -> tuple[tuple[int, float, str], ...]:
    if isinstance(value, str):
        return _natural(value)
    return ((0, value or 0.0, ""),)


def _natural(text: str) -> tuple[tuple[int, float, str], ...]:
    """Order names as people do: gpu-2 before gpu-10."""
    parts = re.split(r"(\d+)", text)
    return tuple((0, float(part), part) if part.isdecimal() else (1, 0.0, part) for part in parts if part)
