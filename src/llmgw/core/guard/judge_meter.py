"""What came of asking a judge within the last minute: counted where it is asked, added up over all gateways."""

import math
from collections import Counter
from collections.abc import Iterable

from llmgw.core.guard.judge_status import JudgeTraffic
from llmgw.core.guard.judges.adapter import Reading, Unclear
from llmgw.core.guard.judges.reply import JudgeReply
from llmgw.schema.guard.rule import FailureKind

WINDOW_S = 60.0
_SLICES = 12
_SLICE_S = WINDOW_S / _SLICES
_BOUNDS = tuple(0.001 * 1.3**step for step in range(60))
"""Seconds, from a millisecond to two hours, each 30 % above the one before: as exact as a sentence needs."""


class JudgeMeter:
    """One judge as one worker finds it. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._slices: dict[int, _Slice] = {}

    def heard(self, reply: JudgeReply, now: float) -> None:
        """Count one reply."""
        number = int(now // _SLICE_S)
        if number not in self._slices:
            self._forget(number)
            self._slices[number] = _Slice()
        self._slices[number].add(reply)

    def traffic(self, now: float) -> JudgeTraffic:
        """Tell of the last minute."""
        self._forget(int(now // _SLICE_S))
        failures: Counter[FailureKind] = Counter()
        seconds: Counter[int] = Counter()
        answered = 0
        for one in self._slices.values():
            failures += one.failures
            seconds += one.seconds
            answered += one.answered
        return JudgeTraffic(answered=answered, failures=dict(failures), median_s=_median(seconds))

    def quantile(self, part: float, now: float) -> float | None:
        """Give the seconds within which so large a part of the last minute's answers came; `None` without any."""
        self._forget(int(now // _SLICE_S))
        return _quantile(sum((one.seconds for one in self._slices.values()), Counter[int]()), part)

    def _forget(self, number: int) -> None:
        for old in [one for one in self._slices if one <= number - _SLICES]:
            del self._slices[old]


def added(traffics: Iterable[JudgeTraffic]) -> JudgeTraffic:
    """Add up what several gateways found; the median is that of the slowest of them."""
    each = tuple(traffics)
    failures: Counter[FailureKind] = Counter()
    for one in each:
        failures.update(one.failures)
    medians = [one.median_s for one in each if one.median_s is not None]
    return JudgeTraffic(
        answered=sum(one.answered for one in each), failures=dict(failures), median_s=max(medians, default=None)
    )


class _Slice:
    """Five seconds."""

    def __init__(self) -> None:
        self.answered = 0
        self.failures: Counter[FailureKind] = Counter()
        self.seconds: Counter[int] = Counter()

    def add(self, reply: JudgeReply) -> None:
        if isinstance(reply.outcome, Reading):
            self.answered += 1
            self.seconds[_bin(reply.seconds)] += 1
        elif isinstance(reply.outcome, Unclear):
            self.failures[FailureKind.UNCLEAR] += 1
        else:
            self.failures[reply.outcome.failure] += 1


def _bin(seconds: float) -> int:
    return next((number for number, bound in enumerate(_BOUNDS) if seconds <= bound), len(_BOUNDS) - 1)


def _median(seconds: Counter[int]) -> float | None:
    return _quantile(seconds, 0.5)


def _quantile(seconds: Counter[int], part: float) -> float | None:
    left = math.ceil(seconds.total() * part)
    for number in sorted(seconds):
        left -= seconds[number]
        if left <= 0:
            return _BOUNDS[number]
    return None
