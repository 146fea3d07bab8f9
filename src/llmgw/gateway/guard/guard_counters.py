"""What guardrails did, in numbers: verdicts, bypasses, outcomes, and what judges cost whom."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from llmgw.core.guard.judges.adapter import Reading
from llmgw.core.guard.judges.reply import JudgeReply, NoAnswer
from llmgw.gateway.metrics import Histogram, histogram_samples, sample
from llmgw.schema.demand import MetricSample
from llmgw.schema.guard.coverage import Coverage, RuleScan
from llmgw.schema.guard.rule import FailureKind

REQUESTS = "llmgw_guard_requests"
VERDICTS = "llmgw_guard_verdicts"
BYPASSES = "llmgw_guard_bypasses"
UNSCANNED = "llmgw_guard_unscanned"
JUDGE_SECONDS = "llmgw_guard_judge_seconds"
JUDGE_FAILURES = "llmgw_guard_judge_failures"
JUDGE_QUESTIONS = "llmgw_guard_judge_questions"
JUDGE_TOKENS = "llmgw_guard_judge_tokens"


class GuardCounters:
    """What one worker counted since it started."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._verdicts: Counter[tuple[str, str, str, str, str]] = Counter()
        self._bypasses: Counter[tuple[str, str, str]] = Counter()
        self._unscanned: Counter[tuple[str, str]] = Counter()
        self._seconds: defaultdict[str, Histogram] = defaultdict(Histogram)
        self._failures: Counter[tuple[str, str]] = Counter()
        self._questions: Counter[tuple[str, str]] = Counter()
        self._tokens: Counter[tuple[str, str, str]] = Counter()

    def covered(self, coverage: Coverage) -> None:
        """Count a request that ended."""
        self._requests[coverage.outcome.value] += 1
        for scan in coverage.scans:
            self._scanned(scan)
        for part in coverage.unscanned:
            self._unscanned[part.stage.value, part.why.value] += 1

    def judged(self, key: str | None, judge: str, reply: JudgeReply) -> None:
        """Count a question to a judge, for the key that caused it."""
        self._questions[key or "", judge] += 1
        for direction, tokens in (("prompt", reply.prompt_tokens), ("completion", reply.completion_tokens)):
            if tokens is not None:
                self._tokens[key or "", judge, direction] += tokens
        if isinstance(reply.outcome, Reading):
            self._seconds[judge].observe(reply.seconds)
            return
        kind = reply.outcome.failure if isinstance(reply.outcome, NoAnswer) else FailureKind.UNCLEAR
        self._failures[judge, kind.value] += 1

    def samples(self) -> tuple[MetricSample, ...]:
        """Give all of it, cumulative, without the gateway's name."""
        return (*self._of_requests(), *self._of_judges())

    def _scanned(self, scan: RuleScan) -> None:
        if scan.texts:
            name = (scan.policy, scan.rule, scan.stage.value, scan.action.value, scan.state.value)
            self._verdicts[name] += 1
        if scan.bypassed:
            failure = "" if scan.failure is None else scan.failure.value
            self._bypasses[scan.policy, scan.rule, failure] += scan.bypassed

    def _of_requests(self) -> Iterator[MetricSample]:
        for outcome, count in self._requests.items():
            yield sample(REQUESTS, count, outcome=outcome)
        for (policy, rule, stage, action, state), count in self._verdicts.items():
            yield sample(VERDICTS, count, policy=policy, rule=rule, stage=stage, action=action, state=state)
        for (policy, rule, failure), count in self._bypasses.items():
            yield sample(BYPASSES, count, policy=policy, rule=rule, failure=failure)
        for (stage, why), count in self._unscanned.items():
            yield sample(UNSCANNED, count, stage=stage, why=why)

    def _of_judges(self) -> Iterator[MetricSample]:
        for judge, seconds in self._seconds.items():
            yield from histogram_samples(JUDGE_SECONDS, seconds, judge=judge)
        for (judge, failure), count in self._failures.items():
            yield sample(JUDGE_FAILURES, count, judge=judge, failure=failure)
        for (key, judge), count in self._questions.items():
            yield sample(JUDGE_QUESTIONS, count, key=key, judge=judge)
        for (key, judge, direction), count in self._tokens.items():
            yield sample(JUDGE_TOKENS, count, key=key, judge=judge, direction=direction)
