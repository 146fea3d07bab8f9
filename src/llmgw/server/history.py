"""What the control plane keeps of the last hour, in memory: each node's load, and how many requests wait by model."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from llmgw.ports import Clock
from llmgw.schema.history import History, HistorySource, Series, SeriesName
from llmgw.schema.report import Load
from llmgw.server.fleet import Fleet
from llmgw.server.hour import STEP_S, Hour, slot_of

LOOK_S = 5.0
"""Seconds between two looks: agents measure as often, so that no slot of the grid is passed over."""
NODES_AT_ONCE = 50
"""2 ms of work."""
MOST_COLUMNS = 3 + 2 * 64
"""Of one node: load, and 64 models. Engines of more hardly fit on one; memory stays bounded whatever agents say."""
MOST_QUEUES = 4096

Column = tuple[SeriesName, str | None]
"""What is measured, and of which model."""


class KeptHistory:
    """An hour of every node this control plane hears of. It begins when it begins to lead."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self._fleet = fleet
        self._clock = clock
        self._nodes: dict[str, Hour[Column]] = {}
        self._queues: Hour[str] = Hour(most=MOST_QUEUES)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            for _ in self._looks():
                await asyncio.sleep(0)
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Note what is known now. To look twice at one measurement notes it once: its moment is its own."""
        for _ in self._looks():
            pass

    def models(self, node: str) -> frozenset[str]:
        """Name the models whose engines were measured on a node within the hour."""
        hour = self._nodes.get(node)
        columns = () if hour is None else hour.columns()
        return frozenset(model for _, model in columns if model is not None)

    def of(self, node: str, models: Sequence[str], *, problem: str | None = None) -> History:
        """Give a node's hour, with the queues of `models`."""
        newest = slot_of(self._clock.now().timestamp())
        hour = self._nodes.get(node) or Hour(most=0)
        found = [
            Series(
                name=name, labels={} if model is None else {"model": model}, points=hour.points((name, model), newest)
            )
            for name, model in sorted(hour.columns(), key=_order)
        ]
        found += [
            Series(name=SeriesName.QUEUE_DEPTH, labels={"model": model}, points=self._queues.points(model, newest))
            for model in sorted(models)
        ]
        known = tuple(series for series in found if series.points)
        return History(source=HistorySource.MEMORY, problem=problem, step_s=STEP_S, series=known)

    def _looks(self) -> Iterator[None]:
        """Look at some nodes at a time, for the loop has others to serve."""
        if not self._fleet.loaded:
            return
        now, unix_s = self._clock.monotonic(), self._clock.now().timestamp()
        nodes = {node.id for node in self._fleet.rows.nodes}
        for gone in self._nodes.keys() - nodes:
            del self._nodes[gone]
        for count, node in enumerate(nodes, start=1):
            if not count % NODES_AT_ONCE:
                yield
            live = self._fleet.node_live(node)
            load = live.fresh_load(now) if live is not None else None
            if live is None or load is None:
                continue
            models = {report.id: report.model for report in live.reports}
            hour = self._nodes.get(node)
            if hour is None:
                hour = self._nodes[node] = Hour(most=MOST_COLUMNS)
            hour.put(slot_of(unix_s - load.age_s), _columns(load, models))
        self._queues.put(slot_of(unix_s), self._waiting())

    def _waiting(self) -> dict[str, float | None]:
        """Say how many requests wait for each model; nothing while no gateway reports."""
        loads = self._fleet.loads()
        if loads is None:
            return {}
        asked = {model.name: loads.get(model.name) for model in self._fleet.rows.models}
        return {model: 0.0 if load is None else float(load.held) for model, load in asked.items()}


def _columns(load: Load, models: Mapping[str, str]) -> dict[Column, float | None]:
    columns: dict[Column, float | None] = {
        (SeriesName.CPU_PERCENT, None): load.cpu_percent,
        (SeriesName.MEMORY_USED_BYTES, None): load.memory_used_bytes,
        (SeriesName.LOAD1, None): load.load1,
    }
    for shard in load.shards:
        model = models.get(shard.shard)
        if model is None:
            continue
        cores, memory = (SeriesName.MODEL_CORES, model), (SeriesName.MODEL_MEMORY_BYTES, model)
        columns[cores] = _sum(columns.get(cores, 0.0), shard.cpu_cores)
        columns[memory] = _sum(columns.get(memory, 0.0), shard.memory_bytes)
    return columns


def _sum(one: float | None, other: float | None) -> float | None:
    """Add up; a sum with an unknown part is unknown."""
    return None if one is None or other is None else one + other


def _order(column: Column) -> tuple[int, str]:
    name, model = column
    return list(SeriesName).index(name), model or ""
