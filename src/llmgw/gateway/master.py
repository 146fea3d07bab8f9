"""The master: owns the port, keeps the workers running, holds the view, and shares engines' slots out among workers."""

import asyncio
import socket
import time
from collections.abc import Callable

import msgspec

from llmgw.gateway.control_link import ControlLink
from llmgw.gateway.demand import ended_demand, total_demand, total_replicas
from llmgw.gateway.guard.audit import Audit
from llmgw.gateway.guard.canary_rounds import CanaryRounds
from llmgw.gateway.guard.judge_book import total_judges
from llmgw.gateway.metrics import GatewayTotals
from llmgw.gateway.permits import Orders, PermitLedger, Returned, Want
from llmgw.gateway.renewal import Renewal
from llmgw.gateway.routes_view import pools_of, with_delta, with_snapshot
from llmgw.gateway.shared_load import SharedLoad
from llmgw.gateway.silent_engines import SilentEngines
from llmgw.gateway.tls import GatewayTls
from llmgw.gateway.view_file import ViewFile
from llmgw.gateway.worker_link import (
    NewlyPlaced,
    Stop,
    WorkerLoad,
    WorkerMessage,
    WorkerReady,
    WorkerReport,
    WorkerStart,
)
from llmgw.gateway.worker_process import WorkerProcess
from llmgw.link.frames import pack
from llmgw.link.renewed import follow_renewals
from llmgw.schema.demand import DemandReport, JudgeReport, ModelDemand, ReplicaDemand
from llmgw.schema.link import ControlMessage, GatewayReport, Renewed, ViewDelta, ViewSnapshot
from llmgw.schema.view import View
from llmgw.telemetry import log as logs
from llmgw.telemetry.clock import SystemClock

REPORT_S = 1.0
RESTART_PAUSE_S = 0.5
"""Pause before a worker is started again that did not live for a second."""
SILENT_S = 30.0
"""Seconds without a worker's report (one comes each second) after which it is taken for hung and killed."""
SAVE_S = 0.2
"""Least time between two writings of the view file."""
SAVE_AGAIN_S = 1.0
"""Pause before a view that could not be written is written again."""
STOP_MARGIN_S = 3.0

Send = Callable[[int, object], None]
"""Takes a message to a worker, by its number."""

log = logs.get(__name__)


class Master:
    """Runs until told to stop. `start` is what each worker is told first, with the view of that moment put in."""

    def __init__(
        self,
        listener: socket.socket,
        start: WorkerStart,
        *,
        view_file: ViewFile | None = None,
        connect: "Callable[[Callable[[ControlMessage], None]], ControlLink] | None" = None,
        tls: GatewayTls | None = None,
        share: "Callable[[Send], SharedLoad] | None" = None,
    ) -> None:
        self._config = start.config
        self._listener = listener
        self._start = start
        self._view = start.view
        self._view_file = view_file
        self._control = connect(self.take_control) if connect else None
        self._ledger = PermitLedger(workers=self._config.workers)
        self._totals = GatewayTotals(self._config.name)
        self._workers: dict[int, WorkerProcess] = {}
        self._demand: dict[int, dict[str, ModelDemand]] = {}
        self._replicas: dict[int, dict[str, ReplicaDemand]] = {}
        self._ended_demand: dict[str, ModelDemand] = {}
        self._tls = tls
        self._renewal: Renewal | None = None
        if tls is not None and self._control is not None:
            self._renewal = Renewal(tls.identity, self._control.send, SystemClock())
        self._silent = SilentEngines(start.place, doors=None if tls is None else tls.doors)
        self._silent.take(start.view)
        self._shared = share(self._send) if share else None
        if self._shared is None and self._config.workers > 1:
            self._shared = SharedLoad(self._send)
        if self._shared is not None:
            self._shared.take(start.view)
        doors = None if tls is None else tls.doors
        self._canaries = CanaryRounds(start.place, start.config.name, self._broadcast, doors=doors)
        self._canaries.take(start.view)
        self._judges: dict[int, dict[str, JudgeReport]] = {}
        self._audit = Audit()
        self._unsaved: str | None = None
        self._numbers = 0
        self._reports = 0
        self._stopping = asyncio.Event()
        self._dirty = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then let open answers end."""
        self._ledger.set_pools(pools_of(self._view))
        async with asyncio.TaskGroup() as tasks:
            workers = [tasks.create_task(self._keep_running()) for _ in range(self._config.workers)]
            others = [tasks.create_task(self._report())]
            if self._control is not None:
                others.append(tasks.create_task(self._control.run()))
                others.append(tasks.create_task(self._silent.run()))
                others.append(tasks.create_task(self._canaries.run()))
            if self._shared is not None:
                others.append(tasks.create_task(self._shared.run()))
            if self._tls is not None:
                others.append(tasks.create_task(follow_renewals(self._tls.certificates)))
            if self._renewal is not None:
                others.append(tasks.create_task(self._renewal.run()))
            if self._view_file is not None:
                others.append(tasks.create_task(self._save(self._view_file)))
            await stop.wait()
            await self._stop(workers)
            for task in others:
                task.cancel()

    async def _stop(self, workers: "list[asyncio.Task[None]]") -> None:
        self._stopping.set()
        self._listener.close()
        log.info("gateway.stopping", drain_s=self._config.drain_s)
        self._broadcast(Stop())
        _, late = await asyncio.wait(workers, timeout=self._config.drain_s + STOP_MARGIN_S)
        if late:
            self.kill_workers()
            await asyncio.wait(late)

    def kill_workers(self) -> None:
        """End all workers at once; their open answers break."""
        for worker in self._workers.values():
            worker.kill()

    # Workers ------------------------------------------------------------------------------------------

    async def _keep_running(self) -> None:
        while not self._stopping.is_set():
            try:
                lived_s = await self._run_worker()
            except OSError as error:
                log.warning("worker.not_started", error=str(error))
                lived_s = 0.0
            if not self._stopping.is_set() and lived_s < 1:
                await asyncio.sleep(RESTART_PAUSE_S)

    async def _run_worker(self) -> float:
        """Start a worker and stay with it to its end; gives how long it lived."""
        self._numbers += 1
        worker = await WorkerProcess.start(self._numbers, self._listener, self._config.name)
        self._workers[worker.number] = worker
        worker.link.send(_with_view(self._start, self._view, shares=self._shared is not None))
        if self._shared is not None:
            self._shared.join(worker.number)
        worker.link.send(self._canaries.quarantine)
        self._carry_out(self._ledger.join(worker.number))
        if self._stopping.is_set():
            worker.link.send(Stop())
        try:
            await self._listen(worker)
        finally:
            del self._workers[worker.number]
            worker.link.close()
            self._totals.ended(worker.number)
            self._replicas.pop(worker.number, None)
            self._judges.pop(worker.number, None)
            if self._shared is not None:
                self._shared.leave(worker.number)
            self._ended_demand = ended_demand(self._ended_demand, self._demand.pop(worker.number, {}))
            self._carry_out(self._ledger.leave(worker.number))
        status = await worker.ended()
        if not self._stopping.is_set():
            log.warning("worker.ended", pid=worker.pid, status=status, note="its open answers broke; starting another")
        return time.monotonic() - worker.started_at

    async def _listen(self, worker: WorkerProcess) -> None:
        try:
            while True:
                async with asyncio.timeout(None if self._stopping.is_set() else SILENT_S):
                    message = await worker.link.receive()
                if message is None:
                    return
                self._take(worker, message)
        except TimeoutError:
            log.warning("worker.hung", pid=worker.pid, silent_s=SILENT_S)
            worker.kill()
        except msgspec.MsgspecError as error:
            # The files on disk are of another release than this process.
            log.warning("worker.unreadable", pid=worker.pid, error=str(error), note="restart the gateway")
            worker.kill()

    def _take(self, worker: WorkerProcess, message: WorkerMessage) -> None:
        if isinstance(message, Want):
            self._carry_out(self._ledger.want(worker.number, message))
        elif isinstance(message, Returned):
            self._carry_out(self._ledger.returned(worker.number, message))
        elif isinstance(message, WorkerLoad | NewlyPlaced):
            if self._shared is not None:
                self._shared.heard(worker.number, message)
        elif isinstance(message, WorkerReport):
            self._demand[worker.number] = message.demand
            self._replicas[worker.number] = message.replicas
            self._judges[worker.number] = message.judges
            self._audit.add(message.audit)
            self._totals.report(worker.number, message.metrics)
            if message.urgent and self._control is not None:
                self._control.send(GatewayReport(report=self.report()))
        elif isinstance(message, WorkerReady):
            log.info("worker.ready", pid=message.pid)

    def _carry_out(self, orders: Orders) -> None:
        for number, order in orders:
            self._send(number, order)

    def _send(self, number: int, message: object) -> None:
        worker = self._workers.get(number)
        if worker is not None:
            worker.link.send(message)

    def _broadcast(self, message: object) -> None:
        frame = pack(message)
        for worker in self._workers.values():
            worker.link.write(frame)

    # The view -----------------------------------------------------------------------------------------

    def take_control(self, message: ControlMessage) -> None:
        """Take in a message of the control plane. Raises `ViewGap` for a delta that does not follow."""
        if isinstance(message, ViewSnapshot):
            view = with_snapshot(self._view, message.view)
            if view != self._view:
                self._change(view, ViewSnapshot(view=view))
        elif isinstance(message, ViewDelta):
            self._change(with_delta(self._view, message), message)
        elif isinstance(message, Renewed) and self._renewal is not None:
            self._renewal.take(message)

    def _change(self, view: View, message: ViewSnapshot | ViewDelta) -> None:
        self._view = view
        self._silent.take(view)
        if self._shared is not None:
            self._shared.take(view)
        self._canaries.take(view)
        self._broadcast(message)  # before permits: a worker must know a replica before it may ask it
        self._carry_out(self._ledger.set_pools(pools_of(view)))
        self._dirty.set()

    async def _save(self, file: ViewFile) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            problem = await asyncio.to_thread(_problem_saving, file, self._view)
            if problem is not None and self._unsaved is None:
                log.error("view.not_saved", error=problem, note="it would be lost with this process; tried again")
            if problem is None and self._unsaved is not None:
                log.info("view.saved")
            self._unsaved = problem
            if problem is not None:
                self._dirty.set()
            await asyncio.sleep(SAVE_S if problem is None else SAVE_AGAIN_S)

    # Reports ------------------------------------------------------------------------------------------

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_S)
            if self._control is not None:
                self._control.send(GatewayReport(report=self.report()))

    def report(self) -> DemandReport:
        """Sum up demand and metrics of all workers."""
        self._reports += 1
        heard = self._control is not None and self._control.connected
        return DemandReport(
            gateway=self._config.name,
            seq=self._reports,
            models=total_demand((self._ended_demand, *self._demand.values())),
            replicas=total_replicas((*self._replicas.values(), self._silent.answered())),
            metrics=self._totals.samples(
                view_unsaved=self._unsaved is not None,
                peers=None if self._shared is None else self._shared.peers(),
            ),
            judges=total_judges((self._canaries.reports(), *self._judges.values())),
            audit=self._audit.take() if heard else (),
        )


def _problem_saving(file: ViewFile, view: View | None) -> str | None:
    """Save a view; give what is in the way, such as a full disk."""
    try:
        if view is not None:
            file.save(view)
    except OSError as error:
        return str(error)
    return None


def _with_view(start: WorkerStart, view: View | None, *, shares: bool) -> WorkerStart:
    return WorkerStart(
        config=start.config,
        view=view,
        place=start.place,
        open_to_all=start.open_to_all,
        any_role=start.any_role,
        shares=shares,
    )
