"""The fleet as this control plane knows it: stored rows and keys in memory, and the one way to change them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from llmgw.core.demand import ModelLoad
from llmgw.core.guard.judge_evidence import needed_judges
from llmgw.core.observing import observing
from llmgw.core.snapshot import Snapshot
from llmgw.ports import Clock, FleetRows, ReplaceAll, Store, Write
from llmgw.schema.alias import Alias
from llmgw.schema.backup import Observing
from llmgw.schema.demand import MetricSample, ModelDemand
from llmgw.schema.errors import LlmgwError, NoLeader, StoreFull, StoreUnavailable
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.identity import Enrolment, Identity, JoinToken
from llmgw.schema.key import AdminToken, ApiKey
from llmgw.schema.lease import Fence, LeaseStatus, Standing
from llmgw.schema.link import LogReply
from llmgw.schema.report import Load
from llmgw.schema.summary import ControlPlaneMember
from llmgw.server.changes import Changes
from llmgw.server.demand import DemandBoard, GatewayLive
from llmgw.server.fleet_sources import Lease, LogSource, MemberSource
from llmgw.server.fold import fold, ordered
from llmgw.server.live import Live, LiveNodes
from llmgw.server.observe import Observer
from llmgw.server.registers import Registers
from llmgw.server.surroundings import Surroundings

HASH_KEY_SETTING = "hash_key"
"""Setting with the cluster's key for keyed hashes, hex."""

FULL_TOLD_S = 60.0
"""How long a write that found no room is told of when no other was tried since."""

V = TypeVar("V")

Decide = Callable[[FleetRows], Sequence[Write]]
SlowDecide = Callable[[FleetRows], Awaitable[Sequence[Write]]]


class Fleet:
    """The working copy of the fleet.

    The leader's copy is exact: every change goes through `write` or `change`. A standby's copy is read from the store
    about once a second, and `write` raises `NoLeader` there. Reading is always at once and never waits.
    """

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        lease: Lease,
        observer: Observer,
        live: LiveNodes,
        demand: DemandBoard,
        logs: LogSource,
        members: MemberSource | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._lease = lease
        self._observer = observer
        self._live = live
        self._demand = demand
        self._logs = logs
        self._members = members
        self.surroundings = surroundings or Surroundings()
        self._rows = FleetRows()
        self._registers = Registers()
        self._writing = asyncio.Lock()
        self._changing: set[asyncio.Future[None]] = set()
        self._doubt = True
        self._loaded = False
        self._version: int | None = None
        self._epoch: int | None = None
        self._failures = 0
        self._failure: StoreUnavailable | None = None
        self._full: tuple[str, float] | None = None
        self.wanted: Mapping[str, int] = {}
        """Replicas demand asks for, by model: told by the reconciler while this process leads, else empty."""
        self.changes = Changes()
        """Told when rows, keys or settings changed, after they did."""
        self.wakes = Changes()
        """Told when the reconciler should look at once."""
        self.audit = demand.audit
        """Coverage records of guarded requests."""
        self.judge_reports = demand.judges
        """What gateways say of judges now."""
        demand.held.subscribe(self.wake)

    # What is known -------------------------------------------------------------------------------

    @property
    def loaded(self) -> bool:
        """False until the rows were read once: nothing may be concluded from what is missing before."""
        return self._loaded

    @property
    def rows(self) -> FleetRows:
        """All fleet tables, in order of their names."""
        return self._rows

    @property
    def api_keys(self) -> tuple[ApiKey, ...]:
        """All client keys, revoked ones included, by id."""
        return _in_order(self._registers.api_keys)

    @property
    def admin_tokens(self) -> tuple[AdminToken, ...]:
        """All operators' tokens, revoked ones included, by id."""
        return _in_order(self._registers.admin_tokens)

    @property
    def join_tokens(self) -> tuple[JoinToken, ...]:
        """Join tokens that were not forgotten yet, by id."""
        return _in_order(self._registers.join_tokens)

    def enrolment(self, identity: Identity) -> Enrolment | None:
        """Give when a machine joined; `None` when it never did, or was removed."""
        return self._registers.enrolments.get(f"{identity.part}/{identity.name}")

    @property
    def aliases(self) -> tuple[Alias, ...]:
        """Aliases of models, by name."""
        return _in_order(self._registers.aliases)

    @property
    def policies(self) -> tuple[StoredPolicy, ...]:
        """Policies of the guardrails, by name."""
        return _in_order(self._registers.policies)

    @property
    def hash_key(self) -> bytes:
        """Give the cluster's key for keyed hashes; empty until a leader has made it: then no secret is right."""
        return bytes.fromhex(self._registers.settings.get(HASH_KEY_SETTING, ""))

    @property
    def settings(self) -> dict[str, str]:
        """The cluster's settings."""
        return dict(self._registers.settings)

    @property
    def observing(self) -> Observing | None:
        """Say why nothing is ordered after a restore; `None` when all goes its normal way."""
        return observing(self._registers.settings)

    @property
    def gateways(self) -> tuple[GatewayLive, ...]:
        """Gateway masters connected to this control plane."""
        return self._demand.gateways()

    def snapshot(self) -> Snapshot:
        """Give the whole fleet now: what plans, summaries and pages are made of. Profiles are resolved in it."""
        reports = {live.node: live.reports for live in self._live.all()}
        found = self._observer.snapshot(self._rows, reports=reports, now=self._clock.now(), wanted=self.wanted)
        idle_s = self._demand.idle_s(replica.id for replica in found.replicas)
        return replace(found, idle_s=idle_s, kept=needed_judges(self.policies, self._rows.models))

    def node_live(self, node: str) -> Live | None:
        """Give what a node's agent says now; `None` when not heard since this control plane leads."""
        return self._live.get(node)

    def fresh_load(self, node: str) -> Load | None:
        """Give a node's last load measurement with its age now; `None` when unknown or over a minute old."""
        live = self._live.get(node)
        return None if live is None else live.fresh_load(self._clock.monotonic())

    def demand(self) -> dict[str, list[tuple[str, ModelDemand]]]:
        """Give the demand that has not expired: per model, (gateway, demand)."""
        return self._demand.by_model()

    def loads(self) -> dict[str, ModelLoad] | None:
        """Give the demand that has not expired, summed up by model; `None` while no gateway reports."""
        return self._demand.loads()

    def metric_samples(self) -> tuple[MetricSample, ...]:
        """Give all gateways' metric samples that have not expired."""
        return self._demand.samples()

    def is_leader(self) -> bool:
        """True while this control plane leads and its rows are read: only then may anything be changed."""
        return self._loaded and self._lease.is_leader()

    def leader_status(self) -> LeaseStatus:
        """Say who leads."""
        return self._lease.status()

    def store_problem(self) -> str | None:
        """Say why nothing can be written; `None` when nothing is known to be in the way.

        A full disk may have room for the lease, which never grows, and for nothing else: that is told for a while.
        """
        problem = self._lease.status().store_problem
        if problem is not None or self._full is None:
            return problem
        text, at = self._full
        return text if self._clock.monotonic() - at < FULL_TOLD_S else None

    def control_planes(self) -> tuple[ControlPlaneMember, ...]:
        """Say of each control plane what it does now; nothing is known where there is only a copy for tests."""
        return () if self._members is None else self._members.described(self._lease.status())

    async def read_log(
        self, shard: str, *, node: str, attempt: int | None = None, tail_bytes: int = 64 * 1024
    ) -> LogReply:
        """Read the end of a shard's log from its node. Raises `NotFound` when the agent does not answer."""
        return await self._logs.read_log(shard, node=node, attempt=attempt, tail_bytes=tail_bytes)

    # What can be done ----------------------------------------------------------------------------

    def wake(self) -> None:
        """Have the reconciler look at once."""
        self.wakes.notify()

    def raise_epoch(self, at_least: int) -> None:
        """Lead with an epoch of `at_least` or more, soon: see `leader_status`."""
        self._lease.raise_epoch(at_least)

    def step_down(self, seconds: float) -> None:
        """Let go of the lease, and leave it to others for so long. Raises `NoLeader` when this one does not lead."""
        self._fence()
        self._lease.step_down(seconds)

    async def forget_control_plane(self, name: str) -> None:
        """Forget a control plane that is gone. Raises `NotFound`, `Conflict` for one that answers."""
        if self._members is not None:
            await self._members.forget(name)

    async def write(self, writes: Sequence[Write]) -> None:
        """Carry out all writes in one fenced transaction, or none; then fold them into memory and wake everybody.

        Raises `NoLeader` when this control plane does not lead, `Fenced` when another one does since, and
        `StoreUnavailable` when the store does not answer: then it is unknown whether they took place.
        """
        await self.change(lambda _: writes)

    async def change(self, decide: Decide) -> None:
        """Write what `decide` makes of the rows as they are when nobody else writes.

        `decide` may raise, which writes nothing; so a check and the write that relies on it cannot be torn apart.
        Otherwise like `write`.
        """

        async def at_once(rows: FleetRows) -> Sequence[Write]:
            return decide(rows)

        await self.change_slowly(at_once)

    async def change_slowly(self, decide: SlowDecide) -> None:
        """Like `change`, for a decision that takes its time; all other writes wait for it."""
        # A caller who goes away (a client that hangs up) must not leave memory behind a write that took place.
        task = asyncio.ensure_future(self._change(decide))
        self._changing.add(task)
        task.add_done_callback(self._changed)
        await asyncio.shield(task)

    async def load(self) -> None:
        """Read everything from the store. Raises `StoreUnavailable`; what was known stays then."""
        async with self._writing:
            await self._load()

    async def follow(self) -> None:
        """Read everything again if some leader wrote since. Raises `StoreUnavailable`; what was known stays then."""
        async with self._writing:
            with self._noting_failure():
                version = await self._store.load_version()
            if self._doubt or version != self._version:
                await self._load()

    def _changed(self, task: asyncio.Future[None]) -> None:
        self._changing.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, since a caller who went away no longer can

    async def _change(self, decide: SlowDecide) -> None:
        failures = self._failures
        async with self._writing:
            self._refuse_behind_failure(failures)
            # Between two epochs another may have led, and written.
            if self._fence().epoch != self._epoch or self._doubt:
                await self._load()
            writes = await decide(self._rows)
            if not writes:
                return
            try:
                with self._noting_failure():
                    await self._store.leader(self._fence()).apply(writes)
            except StoreUnavailable as error:
                self._doubt = True
                self._full = (error.message, self._clock.monotonic()) if isinstance(error, StoreFull) else None
                raise
            self._full = None
            if any(isinstance(write, ReplaceAll) for write in writes):
                self._doubt = True
                await self._load()
            else:
                self._rows = fold(self._rows, writes)
                self._registers.fold(writes)
        self.changes.notify()
        self.wake()

    async def _load(self) -> None:
        fence = self._lease.fence()
        with self._noting_failure():
            version = await self._store.load_version()
            registers = await Registers.load(self._store)
            rows = await self._store.load_fleet()
        self._rows = ordered(rows)
        self._registers = registers
        self._version = version
        self._epoch = None if fence is None else fence.epoch
        self._doubt = False
        self._loaded = True
        self.changes.notify()

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except StoreUnavailable as error:
            self._failures += 1
            self._failure = error
            raise

    def _refuse_behind_failure(self, failures: int) -> None:
        """Refuse what waited behind a call that failed: each by itself would cost one deadline more than the last."""
        if self._failure is not None and self._failures != failures:
            raise StoreUnavailable(f"nothing was written: {self._failure.message}", hint=self._failure.hint)

    def _fence(self) -> Fence:
        fence = self._lease.fence()
        if fence is None:
            raise _refusal(self._lease.status())
        return fence


def _in_order(table: Mapping[str, V]) -> tuple[V, ...]:
    return tuple(table[name] for name in sorted(table))


def _refusal(status: LeaseStatus) -> LlmgwError:
    if status.standing is Standing.LAPSED:
        return StoreUnavailable(
            f"nothing was written: {status.store_problem or 'the store did not answer in time'}",
            hint="models go on being served; changes are possible again once the store answers",
        )
    leads = f"{status.leader_name} leads" if status.leader_name else "no control plane leads right now"
    where = f"at {status.leader_address}" if status.leader_address else "once there is one"
    return NoLeader(f"this control plane does not lead: {leads}", hint=f"ask the control plane that leads, {where}")
