"""The routing view: all a gateway needs to serve `/v1`, in sections with versions of their own."""

from llmgw.schema.alias import Alias
from llmgw.schema.engine import EngineKind
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.model import Role, Routing
from llmgw.schema.value import Value


class RouteReplica(Value, frozen=True, kw_only=True):
    """One replica that can be asked. `endpoint` is used by gateways in the same place, `door` by all others."""

    id: str
    shard: str
    node: str
    place: str | None = None
    endpoint: str | None = None
    door: str | None = None
    key: str | None = None
    """The engine's key."""
    kind: str = "openai"
    """An `EngineKind` value, or `openai` for an engine llmgw does not run itself."""
    slots: int | None = None
    """Most requests at the engine at once; `None` is no limit known."""
    context: int | None = None
    """Tokens per slot; the answer's limit for clients that name none."""
    silent: bool = False
    """The agent of its node is silent: gateways ask the engine now and then whether it still answers."""


class Route(Value, frozen=True, kw_only=True):
    """One model as clients see it. No replicas: `unavailable` says why, for the error text."""

    model: str
    role: Role
    created: int
    """Unix seconds, for `/v1/models`."""
    replicas: tuple[RouteReplica, ...] = ()
    unavailable: str | None = None
    hold_s: float | None = None
    """Most seconds a request may be held while no replica is there but one can be started; `None`: refuse at once."""
    routing: Routing = Routing.PREFIX


class KeyEntry(Value, frozen=True, kw_only=True):
    """A client key as gateways know it: keyed hash only."""

    id: str
    hash: str
    project: str


class RoutesSection(Value, frozen=True, kw_only=True):
    """Models and where they answer."""

    version: int
    routes: tuple[Route, ...] = ()


class KeysSection(Value, frozen=True, kw_only=True):
    """Client keys. `hash_key` (hex) is the cluster's HMAC key; no keys section means: nobody is let in."""

    version: int
    hash_key: str
    keys: tuple[KeyEntry, ...] = ()


class JudgeEntry(Value, frozen=True, kw_only=True):
    """A model in role `guard` that policies ask. Where it answers is in its route."""

    model: str
    family: JudgeFamily | None = None
    """How it is asked: as a policy says, else as its files tell; `None`: it is no judge that we know."""
    forced: bool = False
    """The family is a policy's word."""


class PoliciesSection(Value, frozen=True, kw_only=True):
    """Guardrails. No section means: this gateway does not know yet, and coverage records say so."""

    version: int
    policies: tuple[StoredPolicy, ...] = ()
    judges: tuple[JudgeEntry, ...] = ()


class AliasesSection(Value, frozen=True, kw_only=True):
    """Other names of models."""

    version: int
    aliases: tuple[Alias, ...] = ()


class Peer(Value, frozen=True, kw_only=True):
    """Another gateway master."""

    name: str
    address: str


class PeersSection(Value, frozen=True, kw_only=True):
    """Other gateways to exchange deltas with."""

    version: int
    peers: tuple[Peer, ...] = ()


class View(Value, frozen=True, kw_only=True):
    """A routing view. A section that is `None` is unchanged (in a delta) or not known yet (in a snapshot)."""

    source: str
    """Control plane process (lease holder id or standby) that made it: versions compare only within one source."""
    routes: RoutesSection | None = None
    keys: KeysSection | None = None
    policies: PoliciesSection | None = None
    aliases: AliasesSection | None = None
    peers: PeersSection | None = None


class RoutesDelta(Value, frozen=True, kw_only=True):
    """Changes of the routes section from version `base` to `version`."""

    base: int
    version: int
    changed: tuple[Route, ...] = ()
    removed: tuple[str, ...] = ()


ENGINE_KINDS: tuple[str, ...] = ("openai", *EngineKind)
"""Kinds a gateway can talk to."""
