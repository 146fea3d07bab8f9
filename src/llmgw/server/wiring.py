"""The one place where the control plane's parts are made and put together."""

import asyncio
import importlib.metadata
import os
from functools import partial
from pathlib import Path

import msgspec
from starlette.types import ASGIApp

from llmgw.config.server import ServerConfig
from llmgw.config.tls import is_wildcard, split_address
from llmgw.console.app import build_console
from llmgw.core.lease import Candidate
from llmgw.core.parking import BackoffPolicy
from llmgw.engines.registry import adapter
from llmgw.link.server import AgentListener
from llmgw.ports import Clock
from llmgw.schema.errors import InvalidInput
from llmgw.schema.member import Member
from llmgw.schema.model import Model
from llmgw.schema.plan import Claim
from llmgw.schema.weights import Weights
from llmgw.server.agents import Agents
from llmgw.server.asked import Asked
from llmgw.server.bootstrap import bootstrap, read_credentials
from llmgw.server.demand import DemandBoard
from llmgw.server.disk_watch import DiskWatch
from llmgw.server.execute import Names
from llmgw.server.fleet import Fleet
from llmgw.server.floating_watch import FloatingWatch
from llmgw.server.hand_over import HandingOver
from llmgw.server.hearing import HearingClock
from llmgw.server.history import KeptHistory
from llmgw.server.http.app import build_app
from llmgw.server.hub import Hub
from llmgw.server.identity import SecretKind, new_holder_id, new_replica_id, new_secret
from llmgw.server.kept_authority import kept_authority
from llmgw.server.leader import Leadership
from llmgw.server.lease import LeaseThread
from llmgw.server.live import LiveNodes
from llmgw.server.members import Directory, Members
from llmgw.server.observe import Observer, Resolved
from llmgw.server.patroni import PatroniClient
from llmgw.server.peers import Peers
from llmgw.server.plan_ahead import PlanAhead
from llmgw.server.plan_process import PlanProcess
from llmgw.server.process_metrics import ProcessMetrics
from llmgw.server.prometheus import open_prometheus
from llmgw.server.reconcile import Reconciler
from llmgw.server.registration import Silence
from llmgw.server.restore import Restore
from llmgw.server.security import Security, scheme
from llmgw.server.services.node_history import NodeHistory
from llmgw.server.standby import Standby
from llmgw.server.store_watch import StoreWatch
from llmgw.server.surroundings import Surroundings
from llmgw.server.trusted import trusted
from llmgw.server.turn import Planner, Rules
from llmgw.store.backup import brought_forward
from llmgw.store.sql import SqlStore, open_store

GIB = 1024**3
STORE_PASSWORD = "LLMGW_STORE_PASSWORD"  # noqa: S105 - the name of a variable, not what it holds


class ControlPlane(msgspec.Struct, frozen=True, kw_only=True):
    """All parts of one control plane, not yet running."""

    store: SqlStore
    lease: LeaseThread
    agents: Agents
    listener: AgentListener
    leadership: Leadership
    hub: Hub
    members: Members
    standby: Standby
    handing_over: HandingOver
    peers: Peers
    security: Security
    metrics: ProcessMetrics
    hearing: HearingClock
    history: KeptHistory
    surroundings: Surroundings
    app: ASGIApp


def gateway_socket(config: ServerConfig) -> Path:
    """Where gateways of this machine connect."""
    return Path(config.gateway_socket or Path(config.data_dir) / "hub.sock")


def build(config: ServerConfig, clock: Clock) -> ControlPlane:
    """Make the parts; to be called on the loop they will run on. Opens the store, which blocks, and reads secrets.

    Raises `InvalidInput`, `Conflict` or `StoreError`, each with what to do.
    """
    data = Path(config.data_dir)
    credentials = Path(config.credentials_file or data / "credentials.json")
    prometheus = open_prometheus(config)
    read_credentials(credentials)  # what is wrong with it is told now, not once this control plane leads
    metrics = ProcessMetrics()
    store = open_store(
        config.store_url or f"sqlite:///{data / 'llmgw.db'}",
        password=os.environ.get(STORE_PASSWORD),
        observe=metrics.store_call,
    )
    # Captured now, not read later: an upgrade changes the installed release underneath a running process.
    version = importlib.metadata.version("llmgw")
    _refuse_unreachable(config)
    address = config.api_url or f"{scheme(config)}://{config.api_listen}"
    me = Candidate(holder=new_holder_id(), name=config.name, address=address)
    lease = LeaseThread(store.lease_store(), clock, me)
    peers = Peers(name=config.name)
    members = Members(me=_member(me, config, clock, version), store=store, peers=peers, clock=clock)

    live = LiveNodes()
    hearing = HearingClock(clock)
    board = DemandBoard(hearing)
    surroundings = _surroundings(config, store, members=members, lease=lease, peers=peers)
    directory = Directory(lease, members)
    asked = Asked(clock)
    agents = Agents(live=live, lease=lease, clock=clock, hearing=hearing, directory=directory, asked=asked)
    observer = Observer(resolved)
    fleet = Fleet(
        store=store,
        clock=clock,
        lease=lease,
        observer=observer,
        live=live,
        demand=board,
        logs=agents,
        members=members,
        surroundings=surroundings,
    )
    security = Security(config, fleet=fleet, clock=clock, directory=directory)
    standby = Standby(fleet=fleet, board=board, peers=peers, name=config.name, holder=me.holder)
    handing_over = HandingOver(
        name=config.name,
        fleet=fleet,
        lease=lease,
        live=live,
        asked=asked,
        others=members.all,
        peers=peers,
        clock=clock,
        hearing=hearing,
        count=metrics.handed_over,
    )
    hub = Hub(
        source=me.holder,
        fleet=fleet,
        live=live,
        board=board,
        clock=clock,
        directory=members,
        renew=security.renew,
    )
    members.gateways = hub.reachable

    async def make_first_secrets() -> None:
        await bootstrap(fleet, clock, credentials, urls=_urls(config))
        await security.bootstrap()

    restore = Restore(
        fleet,
        clock,
        forward=brought_forward,
        keep=partial(kept_authority, security),
        first_secrets=make_first_secrets,
    )

    async def reconcile() -> None:
        # Made anew for each term: silence counts from its start.
        planner = PlanAhead(PlanProcess(), clock, wake=fleet.wake)
        rules = _rules(config, planner, leading_since=hearing.monotonic())
        reconciler = Reconciler(
            fleet=fleet,
            live=live,
            orders=agents,
            lease=lease,
            clock=clock,
            observer=observer,
            rules=rules,
            hearing=hearing,
            answering=board.answering,
            probed=board.probed,
            admits=security.admits,
        )
        try:
            await reconciler.run()
        finally:
            await planner.stop()

    leadership = Leadership(
        lease=lease,
        load=fleet.load,
        follow=fleet.follow,
        bootstrap=make_first_secrets,
        agents=agents,
        reconcile=reconcile,
    )
    kept = KeptHistory(fleet, clock)
    history = NodeHistory(fleet, clock, kept, prometheus=prometheus, labels=config.prometheus_labels)
    loop = asyncio.get_running_loop()

    def look_at_lease() -> None:
        loop.call_soon_threadsafe(leadership.wake)
        loop.call_soon_threadsafe(agents.look)

    lease.on_change(look_at_lease)
    return ControlPlane(
        store=store,
        lease=lease,
        agents=agents,
        listener=security.listener(agents),
        security=security,
        leadership=leadership,
        hub=hub,
        members=members,
        standby=standby,
        handing_over=handing_over,
        peers=peers,
        metrics=metrics,
        hearing=hearing,
        history=kept,
        surroundings=surroundings,
        app=build_app(
            fleet,
            clock,
            store,
            config=config,
            version=version,
            history=history,
            restore=restore,
            standby=standby,
            handing_over=handing_over,
            process=metrics.samples,
            console=build_console(fleet, clock, store, config=config, version=version, history=history),
        ),
    )


def resolved(model: Model, weights: Weights | None, cores_usable: float | None) -> Resolved:
    """Ask the model's engine adapter. A model no adapter is there for keeps its profile as it is."""
    try:
        engine = adapter(model.profile.engine)
    except InvalidInput:
        profile = model.profile
        claim = Claim(
            cores=profile.cores,
            memory_bytes=None if profile.memory_gb is None else round(profile.memory_gb * GIB),
            devices=profile.devices_per_node,
            device_class=profile.device_class,
        )
        return Resolved(profile=profile, claim=claim)
    profile = engine.resolve(model.profile, model.role, weights, cores_usable)
    return Resolved(profile=profile, claim=engine.claim(profile, weights))


def _surroundings(
    config: ServerConfig, store: SqlStore, *, members: Members, lease: LeaseThread, peers: Peers
) -> Surroundings:
    store_watch = floating = None
    if config.patroni:
        client = PatroniClient(context=trusted(config.patroni_ca_file, field="patroni_ca_file"))
        store_watch = StoreWatch(seeds=config.patroni, patroni=client, words=store.words)
    if config.floating_address is not None:
        port = split_address(config.api_listen, field="api_listen")[1]
        floating = FloatingWatch(
            address=config.floating_address,
            through=f"{scheme(config)}://{config.floating_address}:{port}",
            name=config.name,
            others=members.all,
            lease=lease.status,
            leads=lease.is_leader,
            peers=peers,
        )
    disk = DiskWatch(name=config.name, folder=Path(config.data_dir))
    return Surroundings(store=store_watch, floating=floating, disk=disk)


def _refuse_unreachable(config: ServerConfig) -> None:
    """Raise `InvalidInput` where others share the store and could not be told where this one is."""
    shared = (config.store_url or "").startswith("postgres")
    if shared and config.api_url is None and is_wildcard(config.api_listen):
        raise InvalidInput(
            f"api_listen = {config.api_listen!r} does not say where other control planes reach this one",
            hint=f'write api_url = "{scheme(config)}://ADDRESS:PORT" with an address of this machine',
            field="api_url",
        )


def _member(me: Candidate, config: ServerConfig, clock: Clock, version: str) -> Member:
    return Member(
        name=me.name,
        holder=me.holder,
        api=me.address,
        agents=config.agent_address or ("" if is_wildcard(config.agent_listen) else config.agent_listen),
        version=version,
        started_at=clock.now(),
    )


def _rules(config: ServerConfig, planner: Planner, *, leading_since: float) -> Rules:
    return Rules(
        planner=planner,
        policy=BackoffPolicy(base_s=config.backoff_base_s, max_s=config.backoff_max_s, park_after=config.park_after),
        silence=Silence(
            unreachable_after_s=config.unreachable_after_s,
            lost_after_s=config.lost_after_s,
            grace_s=config.lost_grace_s,
            leading_since=leading_since,
        ),
        names=Names(replica=new_replica_id, engine_key=lambda: new_secret(SecretKind.ENGINE_KEY)),
    )


def _urls(config: ServerConfig) -> dict[str, str]:
    urls = {"api_url": f"{scheme(config)}://{config.api_listen}"}
    return urls if config.gateway_url is None else {**urls, "base_url": config.gateway_url}
