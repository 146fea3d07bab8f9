"""Nodes: machines with an agent."""

from datetime import datetime
from enum import StrEnum

from llmgw.schema.device import Device
from llmgw.schema.engine import EngineInstall
from llmgw.schema.fabric import Fabric
from llmgw.schema.value import Value
from llmgw.schema.weights import Storage, WatchedPath, Weights, WeightsFolder


class Intent(StrEnum):
    """What the operator wants of a node."""

    NONE = "none"
    CORDONED = "cordoned"
    DRAINING = "draining"


class Reachability(StrEnum):
    """What we know of a node's agent."""

    CONNECTED = "connected"
    UNREACHABLE = "unreachable"
    LOST = "lost"


class Replacement(StrEnum):
    """Whether a silent node's replicas may be replaced elsewhere, and why not."""

    ALLOWED = "allowed"
    HELD = "held"
    """It fell silent together with many others: nothing is replaced until they are back or an operator says so."""
    RELEASED = "released"
    """It was held, and an operator said that it may be replaced."""
    SERVING = "serving"
    """Its engines answer requests, only its agent is silent: it is not lost."""


class NodeState(StrEnum):
    """The shown state; only `ready` is schedulable."""

    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"
    UNREACHABLE = "unreachable"
    LOST = "lost"


class Host(Value, frozen=True, kw_only=True):
    """Operating system and processor of a node."""

    os: str
    kernel: str
    machine: str
    cpu_model: str | None = None
    cores_physical: int | None = None
    cores_logical: int | None = None
    cores_usable: float | None = None
    """Cores the agent may really use: affinity and cgroup limits applied."""
    cpu_flags: tuple[str, ...] = ()
    """Only those that decide whether an engine runs (avx2, avx512f, …)."""


class NodeFacts(Value, frozen=True, kw_only=True):
    """What an agent says of its node at registration. `None` is "not asked to look", `()` is "looked and has none"."""

    hostname: str
    address: str
    """Management address, as other machines reach it."""
    place: str
    """Boot id and network namespace: who shares it reaches the engines' loopback directly."""
    agent_version: str
    host: Host
    labels: dict[str, str] = {}
    memory_bytes: int | None = None
    """Memory the node may really use: the tightest cgroup limit applied."""
    devices: tuple[Device, ...] = ()
    device_classes: tuple[str, ...] = ()
    """Classes it names beside those of its devices: a card in MIG mode without instances has a class and no device."""
    fabrics: tuple[Fabric, ...] = ()
    weights: tuple[Weights, ...] | None = None
    weights_folders: tuple[WeightsFolder, ...] = ()
    """The folders it was asked to look in."""
    watched: tuple[WatchedPath, ...] = ()
    storage: tuple[Storage, ...] | None = None
    engines: tuple[EngineInstall, ...] = ()
    engines_probed: bool = False
    door: str | None = None
    """`host:port` of the node door, `https://host:port` when it speaks mutual TLS; `None` until it runs."""
    problems: tuple[str, ...] = ()
    """What is wrong with the node itself, in words: nothing can be started there while its agent's disk is full."""


class Node(Value, frozen=True, kw_only=True):
    """A node as stored. The shown state is computed from intent and reachability, see `core.node_lifecycle`."""

    id: str
    facts: NodeFacts
    intent: Intent = Intent.NONE
    intent_reason: str | None = None
    reachability: Reachability = Reachability.CONNECTED
    reachability_since: datetime | None = None
    replacement: Replacement = Replacement.ALLOWED
    """Says something only while the node is silent."""
    replacement_since: datetime | None = None
    silences: tuple[datetime, ...] = ()
    """When its agent fell silent, oldest first: those of the hour before the last one, ten at most."""
    lost_at: datetime | None = None
    """When it was last declared lost; kept when it is back, for nodes are lost one at a time."""
    spared: tuple[str, ...] = ()
    """Models whose replicas on it are not to be replaced yet, although it is lost: they wait longer."""
    registered_at: datetime
    generation: int = 0
    """Generation of the last desired set sent to the node."""
    desired_digest: str | None = None
    """Digest of that set's content, so that an equal set is not a new generation."""
