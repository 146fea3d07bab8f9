"""Replicas of judges with what their canaries said, and what follows for those who would ask them."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from llmgw.core.guard.judges.diagnosis import QUARANTINED
from llmgw.gateway.routes_view import Target
from llmgw.gateway.worker_link import Quarantine
from llmgw.schema.demand import JudgeReport
from llmgw.schema.guard.judge import CanaryReport, CanaryState, JudgeFailure, JudgeFamily


class Seat:
    """One replica of a judge. Times are of `time.monotonic`."""

    def __init__(self, judge: str, family: JudgeFamily, target: Target) -> None:
        self.judge = judge
        self.family = family
        self.target = target
        self.due = 0.0
        self.busy = False
        self.report: CanaryReport | None = None
        """Of the last round."""
        self.longest_s: float | None = None
        self.wrong: CanaryReport | None = None
        """The round that showed it wrong; a round without answers takes nothing back."""

    def heard(self, report: CanaryReport, longest_s: float) -> None:
        """Take a round."""
        self.report, self.longest_s = report, longest_s
        if report.state in QUARANTINED:
            self.wrong = report
        elif report.state is CanaryState.RIGHT:
            self.wrong = None


def quarantine_of(seats: Iterable[Seat]) -> Quarantine:
    """Say which judges must not be asked, and which replicas while others of their judge are right."""
    judges: dict[str, str] = {}
    replicas: list[str] = []
    by_judge: dict[str, list[Seat]] = {}
    for seat in seats:
        by_judge.setdefault(seat.judge, []).append(seat)
    for judge, those in sorted(by_judge.items()):
        sick = [(seat, seat.wrong) for seat in those if seat.wrong is not None]
        right = any(seat.wrong is None and _is(seat, CanaryState.RIGHT) for seat in those)
        replicas += [seat.target.id for seat, _ in sick]
        if sick and not right:
            judges[judge] = sick[0][1].text
    return Quarantine(judges=judges, replicas=tuple(sorted(replicas)))


def judge_report(seats: Sequence[Seat], now: datetime, *, quarantined: bool) -> JudgeReport:
    """Tell of one judge by the replica that does worst."""
    known = [(seat, seat.wrong or seat.report) for seat in seats]
    told = [(seat, report) for seat, report in known if report is not None]
    if not told:
        return JudgeReport(quarantined=quarantined)
    seat, report = min(told, key=lambda one: (one[0].wrong is None, one[1].state is CanaryState.RIGHT))
    text = f"{report.text} (replica {seat.target.id})" if len(seats) > 1 else report.text
    # A round without answers takes nothing back, but it was the last one all the same.
    last = report if seat.report is None else seat.report
    failure = None
    if last.at is not None and report.state is not CanaryState.RIGHT:
        failure = JudgeFailure(at=last.at, text=f"canaries: {text}")
    return JudgeReport(
        canaries=replace(report, text=text),
        canaries_age_s=None if last.at is None else (now - last.at).total_seconds(),
        canary_s=seat.longest_s,
        quarantined=quarantined,
        last_failure=failure,
    )


def _is(seat: Seat, state: CanaryState) -> bool:
    return seat.report is not None and seat.report.state is state
