"""The routing view: deltas folded into it, and its live form in a worker, where replicas carry their load."""

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from llmgw.core.breaker import Breaker
from llmgw.core.prefix import BLOCK_BYTES, BYTES_PER_TOKEN, USUAL_BLOCKS, BelievedCache, Chain
from llmgw.gateway.authenticate import Authenticator
from llmgw.gateway.guard.policies import LivePolicies
from llmgw.gateway.permits import Pool
from llmgw.relay.upstream import Endpoint
from llmgw.schema.alias import Alias
from llmgw.schema.door import HTTPS
from llmgw.schema.errors import InvalidInput
from llmgw.schema.link import ViewDelta
from llmgw.schema.model import Role
from llmgw.schema.openai.model import ModelList, ModelObject
from llmgw.schema.view import Route, RouteReplica, RoutesDelta, RoutesSection, View
from llmgw.telemetry import log as logs

KEPT_BLOCKS = 262_144
"""Hashes of prompts a worker keeps for all replicas together: about 25 MB."""
PACE_KEPT = 0.9
"""Of what was seen of an engine's speed, what still counts after one more prompt."""
USUAL_KEPT = 0.98

log = logs.get(__name__)


class ViewGap(Exception):
    """A delta does not follow on the view it is to change: ask for a snapshot."""


def with_snapshot(view: View | None, snapshot: View) -> View:
    """Take over a snapshot; a section it does not know yet stays as it was.

    A control plane that has just started must not make gateways forget.
    """
    if view is None:
        return snapshot
    return View(
        source=snapshot.source,
        routes=snapshot.routes or view.routes,
        keys=snapshot.keys or view.keys,
        policies=snapshot.policies or view.policies,
        aliases=snapshot.aliases or view.aliases,
        peers=snapshot.peers or view.peers,
    )


def with_delta(view: View | None, delta: ViewDelta) -> View:
    """Fold a delta into a view. Raises `ViewGap` when it does not follow."""
    if view is None:
        raise ViewGap("a delta came before any snapshot")
    routes = view.routes
    if delta.routes is not None:
        if routes is None or routes.version != delta.routes.base:
            raise ViewGap(f"a delta on version {delta.routes.base} came for {routes.version if routes else 'nothing'}")
        routes = _with_routes(routes, delta.routes)
    return with_snapshot(msgspec.structs.replace(view, routes=routes), delta.view or View(source=view.source))


def _with_routes(section: RoutesSection, delta: RoutesDelta) -> RoutesSection:
    by_model = {route.model: route for route in section.routes}
    for model in delta.removed:
        by_model.pop(model, None)
    by_model.update((route.model, route) for route in delta.changed)
    return RoutesSection(version=delta.version, routes=tuple(by_model.values()))


def pool_of(replica: RouteReplica) -> str:
    """Name the slots of one engine process: a restarted engine listens elsewhere and has all its slots free."""
    return f"{replica.shard}@{replica.endpoint or replica.door}"


def pools_of(view: View | None) -> dict[str, Pool]:
    """Give the engines with a known number of slots."""
    if view is None or view.routes is None:
        return {}
    return {
        pool_of(replica): Pool(model=route.model, capacity=replica.slots)
        for route in view.routes.routes
        for replica in route.replicas
        if replica.slots is not None
    }


class Target:
    """One replica as a worker asks it. A request counts in `load` from the moment the replica is chosen."""

    __slots__ = (
        "_seen_bytes",
        "_seen_s",
        "answered_at",
        "breaker",
        "cache",
        "context",
        "elsewhere",
        "endpoint",
        "fill",
        "headers",
        "id",
        "kind",
        "load",
        "model",
        "pool",
        "prefix",
        "queued",
        "queued_elsewhere",
        "rate",
        "seed",
        "slots",
    )

    def __init__(self, model: str, replica: RouteReplica, *, near: bool) -> None:
        """Raises `InvalidInput` for an address that is none."""
        self.model = model
        self.id = replica.id
        self.pool = pool_of(replica)
        self.kind = replica.kind
        self.slots = replica.slots
        self.context = replica.context
        self.endpoint = Endpoint.from_url(_address(replica, near=near), peer=None if near else replica.node)
        self.prefix = "" if near else f"/shards/{replica.shard}"
        """What the node's door wants before the path; it adds the engine's key itself."""
        self.headers = _key_header(replica) if near else ()
        self.seed = zlib.crc32(replica.id.encode())
        self.load = 0
        """Requests there, our own and those of other gateways: what a choice goes by."""
        self.elsewhere = 0
        """Those of others (other workers, other gateways), as far as they are known."""
        self.queued = 0.0
        """Bytes of prompts there that are not in its cache and not computed yet, those of others too."""
        self.queued_elsewhere = 0.0
        self.rate: float | None = None
        """Bytes of prompt it was seen to compute a second."""
        self.fill: float | None = None
        """Share of its cache that open requests fill, as its engine tells."""
        self.cache = BelievedCache(cache_blocks(replica))
        self._seen_bytes = 0.0
        self._seen_s = 0.0
        self.answered_at: float | None = None
        """When it began a good answer last, by the loop's clock."""
        self.breaker = Breaker()

    @property
    def in_flight(self) -> int:
        """Our own requests there."""
        return self.load - self.elsewhere

    def is_elsewhere(self, count: int, queued: float = 0.0) -> None:
        """Take over how many requests others have there, and how much of their prompts is not computed yet."""
        self.load += count - self.elsewhere
        self.elsewhere = count
        self.queued += queued - self.queued_elsewhere
        self.queued_elsewhere = queued

    def pace(self, size: float, seconds: float) -> None:
        """Note that it computed so many bytes of prompts in so many seconds. Long prompts count for more."""
        self._seen_bytes = self._seen_bytes * PACE_KEPT + size
        self._seen_s = self._seen_s * PACE_KEPT + seconds
        if self._seen_s > 0:
            self.rate = self._seen_bytes / self._seen_s

    @property
    def ejected_until(self) -> float:
        """Until when it is left out of choices where there are others."""
        return self.breaker.ejected_until

    def failed(self, now: float) -> None:
        """Note that it cannot be reached, or that a stranger is on its port."""
        self.breaker.failed(now)

    def stumbled(self, now: float) -> None:
        """Note a request that broke before its answer, or ended as 5xx."""
        self.breaker.stumbled(now)

    def answered(self, now: float) -> None:
        """Note a good answer; earlier failures are forgotten."""
        self.answered_at = now
        self.breaker.answered()


def target_of(model: str, replica: RouteReplica, place: str | None) -> Target | None:
    """Give a replica as it is asked from `place`; `None` when it cannot be, which is logged."""
    try:
        return Target(model, replica, near=place in (None, replica.place) or replica.place is None)
    except InvalidInput as error:
        log.warning("view.replica_unusable", replica=replica.id, error=error.message)
        return None


class Habits:
    """What requests to a model are like."""

    __slots__ = ("turn", "usual")

    def __init__(self) -> None:
        self.usual = 0.0
        """Bytes of a prompt that a replica has to compute, as is usual lately."""
        self.turn = 0
        """Requests so far."""

    def chosen(self, own: int) -> None:
        """Note a request that leaves a replica so many bytes to compute."""
        self.usual = self.usual * USUAL_KEPT + own * (1 - USUAL_KEPT) if self.turn else float(own)
        self.turn += 1


class LiveRoute:
    """One model as a worker serves it."""

    __slots__ = ("created", "habits", "hold_s", "model", "role", "routing", "targets", "unavailable")

    def __init__(self, route: Route, targets: tuple[Target, ...], habits: Habits | None = None) -> None:
        self.routing = route.routing
        self.habits = habits or Habits()
        self.model = route.model
        self.role: Role = route.role
        self.created = route.created
        self.unavailable = route.unavailable
        self.hold_s = route.hold_s
        self.targets = targets


class LiveView:
    """What a worker serves from. `place` is where it runs: replicas in the same place are asked directly."""

    def __init__(
        self, *, place: str | None, authenticator: Authenticator, policies: LivePolicies | None = None
    ) -> None:
        self._place = place
        self._authenticator = authenticator
        self._policies = policies
        self._routes: dict[str, LiveRoute] = {}
        self._aliases: dict[str, Alias] = {}
        self._list: bytes | None = None
        self._by_id: dict[str, list[Target]] = {}
        self._elsewhere: Mapping[str, int] = {}
        self._queued: Mapping[str, float] = {}

    def take_elsewhere(self, in_flight: Mapping[str, int], queued: Mapping[str, float]) -> None:
        """Take over by replica the requests of all others, and the bytes of their prompts not computed yet."""
        self._elsewhere, self._queued = in_flight, queued
        for target in self.targets():
            target.is_elsewhere(in_flight.get(target.id, 0), queued.get(target.id, 0.0))

    def take_placed(self, replica: str, chain: Chain) -> None:
        """Take over that somebody else put a prompt to a replica."""
        for target in self._by_id.get(replica, ()):
            target.cache.add(chain)

    def take_snapshot(self, view: View) -> None:
        """Take over a whole view; sections it lacks stay."""
        if view.routes is not None:
            names = {route.model for route in view.routes.routes}
            self._change(view.routes.routes, [name for name in self._routes if name not in names])
        if view.keys is not None:
            self._authenticator.update(view.keys)
        if view.policies is not None and self._policies is not None:
            self._policies.take(view.policies)
        if view.aliases is not None:
            self._aliases = {alias.name: alias for alias in view.aliases.aliases}
            self._list = None

    def take_delta(self, delta: ViewDelta) -> None:
        """Take over what changed; the master saw to it that it follows."""
        if delta.routes is not None:
            self._change(delta.routes.changed, delta.routes.removed)
        if delta.view is not None:
            self.take_snapshot(delta.view)

    def route(self, model: str) -> LiveRoute | None:
        """Find a model."""
        return self._routes.get(model)

    def alias(self, name: str) -> Alias | None:
        """Find an alias; a model's own name goes first."""
        return self._aliases.get(name)

    def names(self) -> Collection[str]:
        """Name all models, their aliases left out."""
        return self._routes.keys()

    def targets(self) -> Iterator[Target]:
        """Give all replicas."""
        for route in self._routes.values():
            yield from route.targets

    def model(self, name: str) -> ModelObject | None:
        """Describe one model to clients."""
        route = self._routes.get(name)
        if route is not None:
            return ModelObject(id=name, created=route.created)
        alias = self._aliases.get(name)
        return ModelObject(id=name, created=int(alias.changed_at.timestamp())) if alias is not None else None

    def model_list(self) -> bytes:
        """Describe all models to clients, encoded once per view."""
        if self._list is None:
            names = sorted(self._routes.keys() | self._aliases.keys())
            data = tuple(model for name in names if (model := self.model(name)) is not None)
            self._list = msgspec.json.encode(ModelList(data=data))
        return self._list

    def _change(self, changed: Iterable[Route], removed: Iterable[str]) -> None:
        for name in removed:
            self._routes.pop(name, None)
        for route in changed:
            before = self._routes.get(route.model)
            known = {target.pool: target for target in before.targets} if before else {}
            targets = (self._known_or_new(route.model, replica, known) for replica in route.replicas)
            found = tuple(target for target in targets if target is not None)
            self._routes[route.model] = LiveRoute(route, found, before.habits if before else None)
        self._list = None
        self._remember(tuple(self.targets()))

    def _remember(self, targets: tuple[Target, ...]) -> None:
        self._by_id = {}
        for target in targets:
            self._by_id.setdefault(target.id, []).append(target)
            target.cache.keep(KEPT_BLOCKS // len(targets))

    def _known_or_new(self, model: str, replica: RouteReplica, known: dict[str, Target]) -> Target | None:
        new = target_of(model, replica, self._place)
        if new is None:
            return None
        old = known.get(new.pool)
        if old is None or (old.headers, old.prefix, old.endpoint) != (new.headers, new.prefix, new.endpoint):
            new.is_elsewhere(self._elsewhere.get(new.id, 0), self._queued.get(new.id, 0.0))
            return new
        # The same engine process: its load and its failures stay with it.
        old.slots, old.context, old.kind = new.slots, new.context, new.kind
        return old


def cache_blocks(replica: RouteReplica) -> int:
    """Give what a replica's cache should hold: llama.cpp keeps a conversation in each slot."""
    if replica.slots is None or replica.context is None:
        return USUAL_BLOCKS
    return replica.slots * replica.context * BYTES_PER_TOKEN // BLOCK_BYTES


def _address(replica: RouteReplica, *, near: bool) -> str:
    if near and replica.endpoint is not None:
        return replica.endpoint
    if near or replica.door is None:
        raise InvalidInput("neither its engine nor its node's door can be reached from here", field="door")
    return replica.door if replica.door.startswith(HTTPS) else f"http://{replica.door}"


def _key_header(replica: RouteReplica) -> tuple[tuple[bytes, bytes], ...]:
    if replica.key is None:
        return ()
    return ((b"authorization", b"Bearer " + replica.key.encode()),)
