"""`ctl node list`."""

import click

from llmgw.ctl.output import percent, size, table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.node import NodeList


@click.command("list")
@pass_session
def node_list(session: Session) -> None:
    """List all nodes."""
    session.show(session.api.get("/api/v1/nodes"), NodeList, _table)


def _table(answer: NodeList) -> str:
    rows = [
        (
            row.id,
            row.state,
            row.facts.host.cores_usable,
            percent(row.load.cpu_percent) if row.load else None,
            size(row.facts.memory_bytes),
            size(row.load.memory_used_bytes) if row.load else None,
            size(row.free.memory_bytes),
            len(row.facts.devices) or None,
            [fabric.name for fabric in row.facts.fabrics],
            len(row.replicas),
            row.facts.agent_version,
        )
        for row in answer.nodes
    ]
    columns = ("NODE", "STATE", "CORES", "CPU", "MEMORY", "USED", "FREE", "DEVICES", "FABRICS", "REPLICAS", "AGENT")
    return table(columns, rows, empty="no node has joined yet")
