"""`ctl node show NODE`."""

import click

from llmgw.ctl.output import ago, fields, percent, shown, size, table
from llmgw.ctl.session import Session, pass_session, segment
from llmgw.schema.admin.node import NodeRow
from llmgw.schema.fabric import Fabric
from llmgw.schema.node import Replacement

_REPLACEMENT = {
    Replacement.HELD: "off: it fell silent with many others (llmgw ctl node replace-silent)",
    Replacement.SERVING: "off: its engines answer, only its agent is silent",
}

DIGEST_SHOWN = 12
"""Digits that tell weights apart; the whole digest is in `-o json`."""


@click.command("show")
@click.argument("node")
@pass_session
def node_show(session: Session, node: str) -> None:
    """Show one node: how busy it is, its engines, hardware, weights, what it holds."""
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
            ("load", _load(row)),
            ("pressure", _pressure(row)),
            ("door", facts.door),
            ("labels", [f"{name}={value}" for name, value in facts.labels.items()] or None),
            ("fabrics", [_fabric(fabric) for fabric in facts.fabrics] or None),
        ]
    )
    tables = (_warnings(row), _shards(row), _devices(row), _ports(row), _engines(row), _storage(row), _weights(row))
    return "\n\n".join(part for part in (head, *tables) if part)


def _load(row: NodeRow) -> str | None:
    """Say how busy the node is and how old that is; nothing when it is not known."""
    if row.load is None:
        return None
    load = row.load
    known = [
        f"CPU {percent(load.cpu_percent)}" if load.cpu_percent is not None else None,
        f"memory used {size(load.memory_used_bytes)}" if load.memory_used_bytes is not None else None,
        f"available {size(load.memory_available_bytes)}" if load.memory_available_bytes is not None else None,
        f"load average {shown(load.load1)} {shown(load.load5)} {shown(load.load15)}",
    ]
    return f"{', '.join(part for part in known if part)} ({load.age_s:.0f} s ago)"


def _pressure(row: NodeRow) -> str | None:
    """Say how much of the last ten seconds tasks waited for each resource."""
    if row.load is None or row.load.pressure is None:
        return None
    found = row.load.pressure
    waits = (("CPU", found.cpu_percent), ("memory", found.memory_percent), ("disk", found.io_percent))
    told = [f"{name} {percent(share)}" for name, share in waits if share is not None]
    return f"tasks waited for {', '.join(told)} of the last 10 s" if told else None


def _shards(row: NodeRow) -> str:
    rows = [
        (
            shard.shard,
            shard.model,
            shard.phase,
            round(shard.load.cpu_cores, 2) if shard.load and shard.load.cpu_cores is not None else None,
            size(shard.load.memory_bytes) if shard.load else None,
            size(shard.load.memory_anonymous_bytes) if shard.load else None,
        )
        for shard in row.shards
    ]
    return table(("SHARD", "MODEL", "PHASE", "CORES BUSY", "MEMORY", "OF IT ANONYMOUS"), rows, empty="")


def _fabric(fabric: Fabric) -> str:
    """Say over which adapters and how fast, where that is known: `ib-a (mlx5_0, mlx5_1; 400 Gb/s)`."""
    rate = None if fabric.rate_gbps is None else f"{fabric.rate_gbps:g} Gb/s"
    known = "; ".join(part for part in (", ".join(fabric.hcas), fabric.address, rate) if part)
    return f"{fabric.name} ({known})" if known else fabric.name


def _warnings(row: NodeRow) -> str:
    """Say what is wrong with the node, its fabrics and its folders of weights: it is easily overlooked in a column."""
    fabrics = [(f"fabric {fabric.name}", warning) for fabric in row.facts.fabrics for warning in fabric.warnings]
    folders = [(f"weights {folder.path}", text) for folder in row.facts.weights_folders for text in folder.problems]
    own = [("node", problem) for problem in row.facts.problems]
    return table(("WHERE", "WARNING"), own + fabrics + folders, empty="")


def _ports(row: NodeRow) -> str:
    rows = [
        (
            f"{port.hca}:{port.number}",
            fabric.name,
            port.state,
            None if port.rate_gbps is None else f"{port.rate_gbps:g} Gb/s",
            port.link_layer,
            ", ".join(port.interfaces) or None,
        )
        for fabric in row.facts.fabrics
        for port in fabric.ports
    ]
    return table(("PORT", "FABRIC", "STATE", "RATE", "LINK", "INTERFACE"), rows, empty="")


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
    chats = {True: "chat", False: "no template", None: None}
    rows = [
        (
            item.path,
            size(item.size_bytes),
            item.architecture,
            item.quantization,
            item.context_length,
            chats[item.chat_template],
            item.digest[:DIGEST_SHOWN] if item.digest else None,
            item.problem,
        )
        for item in row.facts.weights or ()
    ]
    head = ("WEIGHTS", "SIZE", "ARCHITECTURE", "QUANTIZATION", "CONTEXT", "TEMPLATE", "SHA-256", "PROBLEM")
    return table(head, rows, empty="")
