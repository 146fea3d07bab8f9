"""Rows of nodes as the console is given them."""

from typing import Any

from msgspec.structs import replace

from llmgw.core.node_lifecycle import shown_state
from llmgw.schema.admin.node import FreeRow, HeldRow, NodeRow
from llmgw.schema.node import Intent, Reachability
from llmgw.schema.report import Load
from llmgw.testing.factories import GIB, NOW, make_node

LOAD = Load(age_s=1.0, cpu_percent=20.0, load1=1.0, memory_used_bytes=8 * GIB, memory_available_bytes=24 * GIB)


def a_row(
    node_id: str = "n1",
    *,
    intent: Intent = Intent.NONE,
    reachability: Reachability = Reachability.CONNECTED,
    load: Load | None = LOAD,
    facts: dict[str, Any] | None = None,
    **fields: Any,
) -> NodeRow:
    """Give the row of a healthy node; `facts` and `fields` differ from it."""
    node = make_node(node_id, intent=intent, reachability=reachability)
    return NodeRow(
        id=node_id,
        state=shown_state(node),
        intent=intent,
        reachability=reachability,
        registered_at=NOW,
        load=load,
        facts=replace(node.facts, **(facts or {})),
        **{
            "connected": reachability is Reachability.CONNECTED,
            "held": HeldRow(cores=0.0, memory_bytes=0),
            "free": FreeRow(),
            **fields,
        },
    )
