"""The only place that builds a gateway's parts."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from llmgw.config.gateway import GatewayConfig
from llmgw.config.logging import LogLevel
from llmgw.core.prefix import unpacked
from llmgw.gateway.access_log import AccessLog
from llmgw.gateway.admit import Admission
from llmgw.gateway.answer import Answerer
from llmgw.gateway.authenticate import Authenticator
from llmgw.gateway.call import RequestIds
from llmgw.gateway.demand import replica_demand, worker_demand
from llmgw.gateway.dispatch import Dispatcher
from llmgw.gateway.guard.audit import Audit
from llmgw.gateway.guard.guard import Guard
from llmgw.gateway.guard.guard_counters import GuardCounters
from llmgw.gateway.guard.judge_book import JudgeBook
from llmgw.gateway.guard.moderator import Moderator
from llmgw.gateway.guard.policies import LivePolicies
from llmgw.gateway.handler import Handler
from llmgw.gateway.hold import Holder
from llmgw.gateway.judge_call import JudgeCaller
from llmgw.gateway.judging import Judging
from llmgw.gateway.metrics import WorkerCounters
from llmgw.gateway.news import News
from llmgw.gateway.permits import Grant, LocalPermits, Recall
from llmgw.gateway.refusals import Refusals
from llmgw.gateway.routes_view import LiveView
from llmgw.gateway.tls import GatewayTls, gateway_tls
from llmgw.gateway.token_counter import TokenCounter
from llmgw.gateway.worker_link import Elsewhere, MasterMessage, NewlyPlaced, Quarantine, WorkerReport, WorkerStart
from llmgw.relay.limits import Limits
from llmgw.relay.server import HttpServer
from llmgw.relay.upstream import UpstreamPool
from llmgw.schema.link import ViewDelta, ViewSnapshot

_LOGS_REQUESTS = (LogLevel.DEBUG, LogLevel.INFO)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's parts, as its loop drives them."""

    server: HttpServer
    view: LiveView
    admission: Admission
    counters: WorkerCounters
    upstreams: UpstreamPool
    access_log: AccessLog | None
    tls: GatewayTls | None
    policies: LivePolicies
    judges: JudgeBook
    judge_caller: JudgeCaller
    news: News | None
    guard_counters: GuardCounters
    audit: Audit

    def take(self, message: MasterMessage) -> None:
        """Take in a message of the master."""
        if isinstance(message, Grant):
            self.admission.granted(message)
        elif isinstance(message, Recall):
            self.admission.recalled(message)
        elif isinstance(message, Elsewhere):
            self.view.take_elsewhere(message.in_flight, message.queued)
        elif isinstance(message, NewlyPlaced):
            for placed in message.placed:
                self.view.take_placed(placed.replica, unpacked(placed.chain))
        elif isinstance(message, Quarantine):
            self.policies.take_quarantine(message.judges, message.replicas)
        elif isinstance(message, ViewSnapshot):
            self.view.take_snapshot(message.view)
            self.admission.pump_all()
        elif isinstance(message, ViewDelta):
            self.view.take_delta(message)
            self.admission.pump_all()

    def report(self, *, urgent: bool = False) -> WorkerReport:
        """Say what is asked for and what was counted."""
        now = time.monotonic()
        demand = worker_demand(self.counters, self.admission, now)
        depths = {model: one.held for model, one in demand.items()}
        in_flight = {model: one.in_flight for model, one in demand.items()}
        return WorkerReport(
            demand=demand,
            replicas=replica_demand(self.view.targets(), now),
            metrics=(*self.counters.samples(depths, in_flight), *self.guard_counters.samples()),
            judges=self.judges.reports(),
            audit=self.audit.take(),
            urgent=urgent,
        )

    def close(self) -> None:
        """Drop connections to engines and write the last lines of the log."""
        self.judge_caller.close()
        if self.news is not None:
            self.news.close()
        self.upstreams.close()
        if self.access_log is not None:
            self.access_log.flush()


def build_worker(start: WorkerStart, send: Callable[[object], None]) -> Worker:
    """Build a worker; `send` takes its messages to the master."""
    config = start.config
    tls = gateway_tls(config)
    authenticator = Authenticator(open_to_all=start.open_to_all)
    policies = LivePolicies()
    view = LiveView(place=start.place, authenticator=authenticator, policies=policies)
    if start.view is not None:
        view.take_snapshot(start.view)
    news = News(view.targets, send) if start.shares else None
    admission = Admission(
        view,
        LocalPermits(),
        send,
        queue_per_model=config.queue_per_model,
        queue_timeout_s=config.queue_timeout_s,
        on_hold=lambda: send(worker.report(urgent=True)),
        on_place=None if news is None else news.placed,
    )
    holder = Holder(admission, hold_s=config.hold_s, comment_s=config.hold_comment_s, max_bytes=config.hold_bytes)
    counters = WorkerCounters()
    upstreams = UpstreamPool(tls=None if tls is None else tls.doors)
    answerer = Answerer(idle_timeout_s=config.idle_timeout_s)
    dispatcher = Dispatcher(
        admission, holder, upstreams, answerer, counters, first_byte_timeout_s=config.first_byte_timeout_s
    )
    caller = JudgeCaller(view, admission, upstreams, sick=policies.sick)
    judges = JudgeBook(caller.waiting)
    guard_counters, audit = GuardCounters(), Audit()
    judging = Judging(caller, family=policies.family, quarantined=policies.quarantined)
    guard = Guard(policies, judging, judges, guard_counters, audit)
    access_log = AccessLog() if config.log_level in _LOGS_REQUESTS else None
    ids = RequestIds()
    handler = Handler(
        view,
        authenticator,
        dispatcher,
        guard=guard,
        moderator=Moderator(view, policies, judging, guard.heard),
        token_counter=TokenCounter(upstreams),
        counters=counters,
        access_log=access_log,
        ids=ids,
        any_role=start.any_role,
    )
    refusals = Refusals(ids, counters, access_log)
    worker = Worker(
        server=HttpServer(handler, limits_of(config), refusals.body, error_headers=refusals.headers),
        view=view,
        admission=admission,
        counters=counters,
        upstreams=upstreams,
        access_log=access_log,
        tls=tls,
        policies=policies,
        judges=judges,
        judge_caller=caller,
        news=news,
        guard_counters=guard_counters,
        audit=audit,
    )
    return worker


def limits_of(config: GatewayConfig) -> Limits:
    """Give the limits on clients."""
    return Limits(
        max_header_bytes=config.max_header_bytes,
        max_body_bytes=config.max_body_bytes,
        header_timeout_s=config.header_timeout_s,
        body_timeout_s=config.body_timeout_s,
        keep_alive_s=config.keep_alive_s,
        max_connections=config.max_connections,
    )
