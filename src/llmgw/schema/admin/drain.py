"""What draining a node does, as operators see it before and while it happens."""

from llmgw.schema.admin.node import NodeRow
from llmgw.schema.value import Value


class DrainMove(Value, frozen=True, kw_only=True):
    """A replica that another one replaces before it ends."""

    replica: str
    model: str
    to: tuple[str, ...] = ()
    """Nodes of its replacement, rank order; empty where the model's other replicas suffice."""


class DrainWait(Value, frozen=True, kw_only=True):
    """A replica that serves on where it is: its replacement fits nowhere now. The node stays draining meanwhile."""

    replica: str
    model: str
    reason: str


class DrainBreak(Value, frozen=True, kw_only=True):
    """A replica that ends before another serves in its place."""

    replica: str
    model: str
    reason: str


class DrainPreview(Value, frozen=True, kw_only=True):
    """What happens to the replicas of a node that drains, if nothing else changes."""

    moves: tuple[DrainMove, ...] = ()
    waits: tuple[DrainWait, ...] = ()
    breaks: tuple[DrainBreak, ...] = ()


class Drain(Value, frozen=True, kw_only=True):
    """Answer of `POST /api/v1/nodes/ID/drain`."""

    node: NodeRow
    dry_run: bool
    """True: nothing was changed."""
    preview: DrainPreview


class ReplacedSilent(Value, frozen=True, kw_only=True):
    """Answer of `POST /api/v1/nodes/replace-silent`."""

    nodes: tuple[str, ...]
    """Nodes that were held and may be replaced now."""
