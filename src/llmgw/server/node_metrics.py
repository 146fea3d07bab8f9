"""Metrics of nodes: what they have, how busy they are, what each engine uses. What is unknown or stale is absent."""

from collections import Counter
from collections.abc import Iterator, Mapping

from llmgw.core.inventory import NOTHING, Held, held_by_node, owned, schedulable
from llmgw.core.node_lifecycle import flaps
from llmgw.schema.demand import MetricSample
from llmgw.schema.node import Node, NodeState, Replacement
from llmgw.schema.report import Load
from llmgw.server.fleet import Fleet

Owners = Mapping[str, tuple[str, str, str]]
"""Node, model and replica of each shard."""

_DEVICE_STATES = ("free", "used", "unhealthy")


def node_samples(fleet: Fleet) -> Iterator[MetricSample]:
    """Give the samples of all nodes now."""
    snapshot, replicas = fleet.snapshot(), fleet.rows.replicas
    for state in NodeState:
        count = sum(node.state is state for node in snapshot.nodes)
        yield _sample("llmgw_nodes", count, state=state.value)
    for reason in (Replacement.HELD, Replacement.SERVING):
        count = sum(seen.node.replacement is reason for seen in snapshot.nodes)
        yield _sample("llmgw_nodes_not_replaced", count, reason=reason.value)
    held = held_by_node(replicas)
    owners = {
        shard.id: (shard.allocation.node, replica.model, replica.id) for replica in replicas for shard in replica.shards
    }
    for seen in snapshot.nodes:
        node, load = seen.node, fleet.fresh_load(seen.node.id)
        yield from _known("llmgw_node_silences", flaps(node, snapshot.now) or None, node=node.id)
        yield from _known("llmgw_node_problems", len(node.facts.problems) or None, node=node.id)
        yield from _has(node, held.get(node.id, NOTHING))
        if load is not None:
            yield from _does(node.id, load)
            yield from _uses(node.id, load, owners)
    lives = (fleet.node_live(seen.node.id) for seen in snapshot.nodes)
    yield _sample("llmgw_agents_connected", sum(live.connected for live in lives if live is not None))


def _has(node: Node, held: Held) -> Iterator[MetricSample]:
    """Give what the node has, whether or not its agent is heard."""
    facts = node.facts
    yield from _known("llmgw_node_cpus", facts.host.cores_usable, node=node.id)
    yield from _known("llmgw_node_memory_bytes", facts.memory_bytes, node=node.id)
    taken = owned(facts.devices, held.devices)
    counts: Counter[tuple[str, str]] = Counter()
    for device in schedulable(facts.devices):
        state = "unhealthy" if device.problem is not None else "used" if device.id in taken else "free"
        counts[device.device_class, state] += 1
    for device_class in sorted({name for name, _ in counts}):
        for state in _DEVICE_STATES:
            count = counts[device_class, state]
            yield MetricSample(
                name="llmgw_node_devices",
                labels=(("node", node.id), ("class", device_class), ("state", state)),
                value=float(count),
            )


def _does(node: str, load: Load) -> Iterator[MetricSample]:
    yield _sample("llmgw_node_load_age_seconds", load.age_s, node=node)
    yield from _known("llmgw_node_cpu_utilization_percent", load.cpu_percent, node=node)
    yield from _known("llmgw_node_load", load.load1, node=node, period="1m")
    yield from _known("llmgw_node_load", load.load5, node=node, period="5m")
    yield from _known("llmgw_node_load", load.load15, node=node, period="15m")
    yield from _known("llmgw_node_memory_used_bytes", load.memory_used_bytes, node=node)
    yield from _known("llmgw_node_memory_available_bytes", load.memory_available_bytes, node=node)
    yield from _known("llmgw_node_data_dir_free_bytes", load.data_dir_free_bytes, node=node)
    if load.pressure is not None:
        yield from _known("llmgw_node_pressure_percent", load.pressure.cpu_percent, node=node, resource="cpu")
        yield from _known("llmgw_node_pressure_percent", load.pressure.memory_percent, node=node, resource="memory")
        yield from _known("llmgw_node_pressure_percent", load.pressure.io_percent, node=node, resource="io")


def _uses(node: str, load: Load, owners: Owners) -> Iterator[MetricSample]:
    """Give what engines use; one that is not placed on this node has no model to be counted under."""
    for one in load.shards:
        place, model, replica = owners.get(one.shard, ("", "", ""))
        if place != node:
            continue
        labels = {"node": node, "model": model, "replica": replica, "shard": one.shard}
        yield from _known("llmgw_shard_cpu_cores", one.cpu_cores, **labels)
        yield from _known("llmgw_shard_memory_bytes", one.memory_bytes, **labels)
        yield from _known("llmgw_shard_memory_anonymous_bytes", one.memory_anonymous_bytes, **labels)


def _known(name: str, value: float | None, **labels: str) -> Iterator[MetricSample]:
    if value is not None:
        yield _sample(name, value, **labels)


def _sample(name: str, value: float, **labels: str) -> MetricSample:
    return MetricSample(name=name, labels=tuple(labels.items()), value=float(value))
