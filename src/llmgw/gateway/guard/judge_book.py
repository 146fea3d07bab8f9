"""How judges do, as one worker finds them, and the sum over workers that goes to the control plane."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from llmgw.core.guard.judge_meter import JudgeMeter
from llmgw.core.guard.judges.adapter import Reading
from llmgw.core.guard.judges.reply import JudgeReply, NoAnswer
from llmgw.schema.demand import JudgeReport
from llmgw.schema.guard.judge import JudgeFailure
from llmgw.schema.guard.rule import FailureKind


class JudgeBook:
    """What came of asking judges."""

    def __init__(self, waiting: Callable[[str], int]) -> None:
        self._waiting = waiting
        self._meters: dict[str, JudgeMeter] = {}
        self._failures: dict[str, JudgeFailure] = {}

    def heard(self, judge: str, reply: JudgeReply) -> None:
        """Take a judge's reply."""
        self._meters.setdefault(judge, JudgeMeter()).heard(reply, time.monotonic())
        if not isinstance(reply.outcome, Reading):
            kind = reply.outcome.failure if isinstance(reply.outcome, NoAnswer) else FailureKind.UNCLEAR
            text = f"{kind}: {reply.outcome.detail}"
            self._failures[judge] = JudgeFailure(at=datetime.now(UTC), text=text)

    def reports(self) -> dict[str, JudgeReport]:
        """Tell of each judge that was asked."""
        now = time.monotonic()
        return {judge: self._report(judge, meter, now) for judge, meter in self._meters.items()}

    def _report(self, judge: str, meter: JudgeMeter, now: float) -> JudgeReport:
        traffic = meter.traffic(now)
        return JudgeReport(
            last_failure=self._failures.get(judge),
            failures=dict(traffic.failures),
            answers=traffic.answered,
            slowest_s=meter.quantile(0.95, now),
            waiting=self._waiting(judge),
        )


def total_judges(parts: Iterable[Mapping[str, JudgeReport]]) -> dict[str, JudgeReport]:
    """Add up what several workers, and the canaries of the master, tell."""
    total: dict[str, JudgeReport] = {}
    for part in parts:
        for judge, one in part.items():
            total[judge] = _sum(total[judge], one) if judge in total else one
    return total


def _sum(one: JudgeReport, other: JudgeReport) -> JudgeReport:
    failures = Counter(one.failures)
    failures.update(other.failures)
    last = [failure for failure in (one.last_failure, other.last_failure) if failure is not None]
    slow = [seconds for seconds in (one.slowest_s, other.slowest_s) if seconds is not None]
    return JudgeReport(
        canaries=one.canaries or other.canaries,
        canaries_age_s=one.canaries_age_s if one.canaries is not None else other.canaries_age_s,
        canary_s=one.canary_s if one.canaries is not None else other.canary_s,
        quarantined=one.quarantined or other.quarantined,
        last_failure=max(last, key=lambda failure: failure.at, default=None),
        failures=dict(failures),
        answers=one.answers + other.answers,
        slowest_s=max(slow, default=None),
        waiting=one.waiting + other.waiting,
    )
