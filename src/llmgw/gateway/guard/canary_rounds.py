"""The master's canaries: each replica of each judge proves every 20 s that it judges.

Asked beside the slots that workers share, one question at a time: proof must not wait behind those it is about.
"""

import asyncio
import contextlib
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from llmgw.core.guard.judges.adapter import JudgeAdapter
from llmgw.core.guard.judges.canaries import CANARIES
from llmgw.core.guard.judges.diagnosis import CanaryResult, diagnose
from llmgw.core.guard.judges.registry import adapter
from llmgw.core.guard.judges.reply import JudgeReply, NoAnswer
from llmgw.core.guard.outlook import View as JudgeView
from llmgw.gateway.guard.seats import Seat, judge_report, quarantine_of
from llmgw.gateway.judge_call import JudgeFailed, put, read_reply
from llmgw.gateway.judging import canary_result
from llmgw.gateway.routes_view import Target, target_of
from llmgw.gateway.worker_link import Quarantine
from llmgw.relay.tls import ClientTls
from llmgw.relay.upstream import UpstreamPool
from llmgw.schema.demand import JudgeReport
from llmgw.schema.guard.judge import CanaryReport, JudgeFamily
from llmgw.schema.guard.rule import FailureKind
from llmgw.schema.model import Role
from llmgw.schema.view import View
from llmgw.telemetry import log as logs

EVERY_S = 20.0
TIMEOUT_S = 25.0
"""For one canary. A judge that stopped answering is told within a minute: a pause, and the first canary after it."""
AT_ONCE = 8
"""Replicas asked at the same time."""

_SILENT = frozenset({FailureKind.TIMEOUT, FailureKind.UNREACHABLE, FailureKind.OVERLOADED})

log = logs.get(__name__)


class CanaryRounds:
    """Asks, and says who must not be asked. `send` takes a quarantine whenever it changes."""

    def __init__(
        self,
        place: str | None,
        gateway: str,
        send: Callable[[Quarantine], None],
        *,
        doors: ClientTls | None = None,
        every_s: float = EVERY_S,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.quarantine = Quarantine()
        """The last one sent, for workers that start."""
        self._place = place
        self._gateway = gateway
        self._send = send
        self._doors = doors
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._seats: dict[str, Seat] = {}
        self._more = asyncio.Event()

    def take(self, view: View | None) -> None:
        """Take over the judges of a view and where they answer. What is known of a replica stays with it."""
        before = self._seats
        self._seats = {}
        for judge, family, target in _judges(view, self._place):
            known = before.get(target.id)
            if known is None or (known.judge, known.family, known.target.pool) != (judge, family, target.pool):
                known = Seat(judge, family, target)
            known.target = target
            self._seats[target.id] = known
        self._more.set()
        self._decide()

    def reports(self) -> dict[str, JudgeReport]:
        """Tell of each judge: of the replica that does worst."""
        now = datetime.now(UTC)
        judges = {seat.judge for seat in self._seats.values()}
        return {
            judge: judge_report(self._of(judge), now, quarantined=judge in self.quarantine.judges) for judge in judges
        }

    async def run(self) -> None:
        """Ask until cancelled: new replicas at once, then each at its own time."""
        pool = UpstreamPool(connect_timeout_s=min(2.0, self._timeout_s), tls=self._doors)
        room = asyncio.Semaphore(AT_ONCE)
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self._more.clear()
                    for seat in self._due():
                        seat.busy = True
                        tasks.create_task(self._round(seat, pool, room))
                    await self._pause()
        finally:
            pool.close()

    def _of(self, judge: str) -> list[Seat]:
        return [seat for seat in self._seats.values() if seat.judge == judge]

    def _due(self) -> list[Seat]:
        now = time.monotonic()
        return [seat for seat in self._seats.values() if not seat.busy and seat.due <= now]

    async def _pause(self) -> None:
        next_at = min((seat.due for seat in self._seats.values() if not seat.busy), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if next_at is None else max(0.0, next_at - time.monotonic())):
                await self._more.wait()

    async def _round(self, seat: Seat, pool: UpstreamPool, room: asyncio.Semaphore) -> None:
        first = seat.report is None
        started = time.monotonic()
        async with room:
            report, longest = await self._ask_all(seat, pool)
        seat.heard(report, longest)
        # The first pause is a part of one, by who asks whom: gateways and replicas spread over the time.
        spread = zlib.crc32(f"{self._gateway} {seat.target.id}".encode()) / 2**32 if first else 1.0
        seat.due = max(started + self._every_s * (0.5 + spread / 2 if first else 1.0), time.monotonic())
        seat.busy = False
        if seat.target.id in self._seats:
            self._decide()
        self._more.set()

    async def _ask_all(self, seat: Seat, pool: UpstreamPool) -> tuple[CanaryReport, float]:
        asks = adapter(seat.family)
        results: list[CanaryResult] = []
        longest, silent = 0.0, None
        for canary in CANARIES:
            reply = silent or await self._ask(seat.target, asks, pool, canary.view)
            # One that does not answer is not asked on: who is dead would be told minutes later, else.
            silent = reply if isinstance(reply.outcome, NoAnswer) and reply.outcome.failure in _SILENT else None
            longest = max(longest, reply.seconds)
            results.append(canary_result(canary, reply))
        return replace(diagnose(results), at=datetime.now(UTC)), longest

    async def _ask(self, target: Target, asks: JudgeAdapter, pool: UpstreamPool, view: JudgeView) -> JudgeReply:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                body = await put(pool, target, asks.prompt(view), timeout_s=self._timeout_s, lingers=False)
        except TimeoutError:
            return JudgeReply(NoAnswer(FailureKind.TIMEOUT, "it did not answer in time"), time.monotonic() - started)
        except JudgeFailed as failed:
            return JudgeReply(failed.answer, time.monotonic() - started)
        return read_reply(asks, body, time.monotonic() - started, None)

    def _decide(self) -> None:
        quarantine = quarantine_of(self._seats.values())
        if quarantine == self.quarantine:
            return
        _tell(self.quarantine, quarantine)
        self.quarantine = quarantine
        self._send(quarantine)


def _judges(view: View | None, place: str | None) -> Iterator[tuple[str, JudgeFamily, Target]]:
    if view is None or view.policies is None or view.routes is None:
        return
    routes = {route.model: route for route in view.routes.routes if route.role is Role.GUARD}
    for judge in view.policies.judges:
        route = routes.get(judge.model)
        if route is None or judge.family is None:
            continue
        for replica in route.replicas:
            target = target_of(judge.model, replica, place)
            if target is not None:
                yield judge.model, judge.family, target


def _tell(before: Quarantine, after: Quarantine) -> None:
    for judge, reason in after.judges.items():
        if before.judges.get(judge) != reason:
            log.error("judge.quarantined", judge=judge, reason=f"it {reason}")
    for judge in before.judges.keys() - after.judges.keys():
        log.info("judge.released", judge=judge)
    for replica in sorted(set(after.replicas) - set(before.replicas)):
        log.error("judge.replica_left_out", replica=replica, note="its canaries fail, those of others do not")
