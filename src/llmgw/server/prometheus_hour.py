"""A node's hour as Prometheus knows it: one query for all lines, by the names that this control plane exports."""

import json
import re
from collections.abc import Mapping, Sequence

from llmgw.schema.history import History, HistorySource, Series, SeriesName
from llmgw.server.hour import SLOTS, STEP_S, slot_of
from llmgw.server.prometheus import Line, Prometheus

LINE = "llmgw_line"
"""Label that says which line of the hour a series is."""


async def prometheus_hour(
    prometheus: Prometheus, node: str, models: Sequence[str], *, labels: Mapping[str, str], now: float
) -> History:
    """Ask for the hour that ends at `now` (unix seconds). Raises `PrometheusTrouble`."""
    end = slot_of(now) * STEP_S
    start = end - (SLOTS - 1) * STEP_S
    lines = await prometheus.range(hour_query(node, models, labels), start=start, end=end, step_s=STEP_S)
    return History(source=HistorySource.PROMETHEUS, step_s=STEP_S, series=_series(lines, start=start))


def hour_query(node: str, models: Sequence[str], labels: Mapping[str, str]) -> str:
    """Write the query. Several control planes export the same node while the lead changes: the larger value counts."""
    here = _selector({**labels, "node": node})
    shard = "max by (model, replica, shard)"
    lines = [
        (SeriesName.CPU_PERCENT, f"max(llmgw_node_cpu_utilization_percent{here})"),
        (SeriesName.MEMORY_USED_BYTES, f"max(llmgw_node_memory_used_bytes{here})"),
        (SeriesName.LOAD1, f"max(llmgw_node_load{_selector({**labels, 'node': node, 'period': '1m'})})"),
        (SeriesName.MODEL_CORES, f"sum by (model) ({shard} (llmgw_shard_cpu_cores{here}))"),
        (SeriesName.MODEL_MEMORY_BYTES, f"sum by (model) ({shard} (llmgw_shard_memory_bytes{here}))"),
    ]
    if models:
        asked = _selector(labels, more=f"model=~{_quoted('|'.join(map(re.escape, models)))}")
        depth = f"llmgw_gateway_queue_depth{asked}"
        lines.append((SeriesName.QUEUE_DEPTH, f"sum by (model) (max by (gateway, model) ({depth}))"))
    return "\nor ".join(f'label_replace({expression}, "{LINE}", "{name}", "", "")' for name, expression in lines)


def _series(lines: Sequence[Line], *, start: int) -> tuple[Series, ...]:
    order = list(SeriesName)
    found = [
        Series(
            name=SeriesName(line.labels[LINE]),
            labels={"model": line.labels["model"]} if "model" in line.labels else {},
            points=tuple((at, line.values.get(at)) for at in range(start, start + SLOTS * STEP_S, STEP_S)),
        )
        for line in lines
        if line.labels.get(LINE) in order and line.values
    ]
    return tuple(sorted(found, key=lambda one: (order.index(one.name), one.labels.get("model", ""))))


def _selector(labels: Mapping[str, str], *, more: str = "") -> str:
    matchers = [f"{name}={_quoted(value)}" for name, value in labels.items()]
    return "{" + ",".join([*matchers, more] if more else matchers) + "}"


def _quoted(text: str) -> str:
    """Quote as Go does: JSON's escapes are among those."""
    return json.dumps(text, ensure_ascii=False)
