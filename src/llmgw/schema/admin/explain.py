"""Why a model is as it is, and what would change that."""

from enum import StrEnum

from llmgw.schema.plan import Constraint
from llmgw.schema.value import Value


class Sieve(Value, frozen=True, kw_only=True):
    """One constraint, in the order in which nodes are sifted."""

    constraint: Constraint
    needs: str
    """What is asked of a node."""
    out: int
    """Nodes that pass all before it and not this one."""
    left: int
    """Nodes that are left after it."""
    sentence: str


class CloseNode(Value, frozen=True, kw_only=True):
    """A node and all that keeps a replica off it."""

    node: str
    lacks: tuple[str, ...]
    """Empty for a node that fits by itself."""


class ChangeKind(StrEnum):
    """What has to be touched."""

    NODE = "node"
    """Something about nodes there are: a cordon, a label, an engine, weights, a faulty device."""
    MODEL = "model"
    """What the model asks for."""
    OTHERS = "others"
    """Other models give room."""
    HARDWARE = "hardware"
    """Nodes that are not there yet."""


class Change(Value, frozen=True, kw_only=True):
    """One change after which one more replica would be placed: planned on the fleet as it would be then."""

    kind: ChangeKind
    text: str
    commands: tuple[str, ...] = ()
    """How to do it, where `llmgw ctl` can."""


class Explanation(Value, frozen=True, kw_only=True):
    """`GET /api/v1/models/NAME/explain`."""

    model: str
    verdict: str
    """One sentence: how it stands, and why."""
    desired: int
    ready: int
    missing: int
    """Replicas that fit nowhere now."""
    nodes: int
    """Nodes there are."""
    fitting: int
    """Nodes that could each take a shard now."""
    sieves: tuple[Sieve, ...] = ()
    closest: tuple[CloseNode, ...] = ()
    """The nodes that lack least, for a model that fits nowhere."""
    changes: tuple[Change, ...] = ()
    """The smallest first; each makes it fit by itself."""
