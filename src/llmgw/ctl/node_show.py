"""`ctl node show NODE`."""

import click

from llmgw.ctl.output import ago, fields, size, table
from llmgw.ctl.session import Session, pass_session, segment
from llmgw.schema.admin.node import NodeRow
from llmgw.schema.fabric import Fabric
from llmgw.schema.node import Replacement

_REPLACEMENT = {
    Replacement.HELD: "off: it fell silent with many others (llmgw ctl node replace-silent)",
    Replacement.SERVING: "off: its engines answer, only its agent is silent",
}


@click.command("show")
@click.argument("node")
@pass_session
def node_show(session: Session, node: str) -> None:
    """Show one node: hardware, engines, weights, what it holds."""
    session.show(session.api.get(f"/api/v1/nodes/{segment(node)}"), NodeRow, _text)


def _text(row: NodeRow) -> str:
    facts, host = row.facts, row.facts.host
    head = fields(
        [
            ("node", row.id),
            ("state", f"{row.state}" + (f" ({row.intent_reason})" if row.intent_reason else "")),
            ("replacement", _REPLACEMENT.get(row.replacement)),
            ("takes nothing new", f"until {row.settles_at:%H:%M:%S} UTC, after a silence" if row.settles_at else None),
            ("silent lately", f"{row.flaps} times in ten minutes" if row.flaps > 1 else None),
            ("agent", f"{facts.agent_version}, {'connected' if row.connected else 'not connected'}"),
            ("joined", ago(row.registered_at)),
            ("host", f"{facts.hostname} ({facts.address}), {host.os}, Linux {host.kernel}, {host.machine}"),
            ("processor", host.cpu_model),
            ("cores", f"{host.cores_usable or '?'} usable, {host.cores_physical or '?'} physical"),
            ("memory", size(facts.memory_bytes)),
            ("memory free", size(row.free.memory_bytes)),
            ("door", facts.door),
            ("labels", [f"{name}={value}" for name, value in facts.labels.items()] or None),
            ("fabrics", [_fabric(fabric) for fabric in facts.fabrics] or None),
            ("replicas", row.replicas or None),
        ]
    )
    return "\n\n".join(part for part in (head, _devices(row), _engines(row), _storage(row), _weights(row)) if part)


def _fabric(fabric: Fabric) -> str:
    """Say over which adapters and how fast, where that is known: `ib-a (mlx5_0, mlx5_1; 400 Gb/s)`."""
    rate = None if fabric.rate_gbps is None else f"{fabric.rate_gbps:g} Gb/s"
    known = "; ".join(part for part in (", ".join(fabric.hcas), fabric.address, rate) if part)
    return f"{fabric.name} ({known})" if known else fabric.name


def _devices(row: NodeRow) -> str:
    free = set(row.free.devices)
    rows = [
        (
            device.index,
            device.device_class,
            "unhealthy" if device.problem else "free" if device.id in free else "in use",
            size(device.memory_bytes),
            device.id,
            device.problem,
        )
        for device in row.facts.devices
    ]
    return table(("DEVICE", "CLASS", "STATE", "MEMORY", "ID", "PROBLEM"), rows, empty="")


def _engines(row: NodeRow) -> str:
    rows = [(engine.kind, engine.version, engine.variant, engine.state, engine.reason) for engine in row.facts.engines]
    return table(("ENGINE", "VERSION", "VARIANT", "STATE", "REASON"), rows, empty="")


def _storage(row: NodeRow) -> str:
    kinds = {True: "shared", False: "local", None: None}
    rows = [
        (item.mount, item.fstype, kinds[item.shared], size(item.total_bytes), size(item.free_bytes), item.problem)
        for item in row.facts.storage or ()
    ]
    return table(("STORAGE", "TYPE", "KIND", "TOTAL", "FREE", "PROBLEM"), rows, empty="")


def _weights(row: NodeRow) -> str:
    rows = [
        (item.path, size(item.size_bytes), item.architecture, item.quantization, item.context_length, item.problem)
        for item in row.facts.weights or ()
    ]
    return table(("WEIGHTS", "SIZE", "ARCHITECTURE", "QUANTIZATION", "CONTEXT", "PROBLEM"), rows, empty="")
