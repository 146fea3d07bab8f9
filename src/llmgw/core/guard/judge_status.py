"""How a judge does, in one true sentence: the first thing that keeps it from judging."""

from collections.abc import Mapping

from llmgw.core.amounts import counted
from llmgw.core.guard.judges.diagnosis import QUARANTINED
from llmgw.core.guard.judges.recognise import Recognition
from llmgw.schema.guard.judge import CanaryReport, CanaryState, JudgeFailure, JudgeFamily, JudgeState, JudgeStatus
from llmgw.schema.guard.rule import FailureKind
from llmgw.schema.model import Role
from llmgw.schema.value import Value

NEAR = 0.8
"""Part of the time limit that half of the answers may take before a judge is called slow."""


class JudgeTraffic(Value, frozen=True, kw_only=True):
    """What came of asking it within the last minute, all gateways together, canaries left out."""

    answered: int = 0
    """With a verdict of safe or unsafe."""
    failures: Mapping[FailureKind, int] = {}
    median_s: float | None = None
    """Of the answers."""


class JudgeEvidence(Value, frozen=True, kw_only=True):
    """All that is known of one judge."""

    model: str
    policies: tuple[str, ...]
    timeout_s: float
    """The shortest limit of the rules that ask it."""
    role: Role | None = None
    """`None`: no model of this name is in the catalog."""
    recognition: Recognition = Recognition()
    said: JudgeFamily | None = None
    """The family that policies say it is of."""
    replicas_ready: int = 0
    replicas_wanted: int = 0
    trouble: str | None = None
    """Why replicas are missing: parked, unplaceable, starting."""
    canaries: CanaryReport | None = None
    canary_s: float | None = None
    """The longest answer to a canary of the last round."""
    traffic: JudgeTraffic = JudgeTraffic()
    last_failure: JudgeFailure | None = None


def family(evidence: JudgeEvidence) -> JudgeFamily | None:
    """Give the family by which a judge is asked: the policies' word, else what its files say."""
    return evidence.said or evidence.recognition.family


def judge_status(evidence: JudgeEvidence) -> JudgeStatus:
    """Tell how it does."""
    state = _state(evidence)
    text, remedy = _told(state, evidence)
    return JudgeStatus(
        model=evidence.model,
        policies=evidence.policies,
        in_catalog=evidence.role is not None,
        is_judge=evidence.role is Role.GUARD and family(evidence) is not None,
        replicas_ready=evidence.replicas_ready,
        state=state,
        family=family(evidence),
        forced=evidence.said is not None and evidence.said is not evidence.recognition.family,
        last_failure=evidence.last_failure,
        canaries=evidence.canaries,
        text=text,
        problem=None if state is JudgeState.HEALTHY else text,
        remedy=remedy,
    )


def _state(evidence: JudgeEvidence) -> JudgeState:
    if evidence.role is None:
        return JudgeState.ABSENT
    if evidence.role is not Role.GUARD or family(evidence) is None:
        return JudgeState.NOT_A_JUDGE
    if evidence.replicas_ready == 0:
        return JudgeState.NO_REPLICA
    canaries = evidence.canaries
    if canaries is not None and canaries.state in QUARANTINED:
        return JudgeState.WRONG
    return _by_traffic(evidence, canaries)


def _by_traffic(evidence: JudgeEvidence, canaries: CanaryReport | None) -> JudgeState:
    traffic = evidence.traffic
    failures = traffic.failures
    silent = canaries is None or canaries.state is CanaryState.SILENT
    unanswered = failures.get(FailureKind.UNREACHABLE, 0) + failures.get(FailureKind.TIMEOUT, 0)
    if failures.get(FailureKind.OVERLOADED, 0) > unanswered:
        return JudgeState.OVERLOADED
    if traffic.answered == 0 and silent and (unanswered or canaries is not None):
        return JudgeState.DEAD
    slow = [seconds for seconds in (traffic.median_s, evidence.canary_s) if seconds is not None]
    if failures.get(FailureKind.TIMEOUT, 0) or max(slow, default=0.0) > NEAR * evidence.timeout_s:
        return JudgeState.SLOW
    if failures.get(FailureKind.OVERLOADED, 0):
        return JudgeState.OVERLOADED
    if traffic.answered == 0 and failures.get(FailureKind.UNREACHABLE, 0):
        return JudgeState.DEAD
    return JudgeState.UNPROVEN if silent else JudgeState.HEALTHY


def _told(state: JudgeState, evidence: JudgeEvidence) -> tuple[str, str | None]:
    model, canaries = evidence.model, evidence.canaries
    enable = f"llmgw ctl guard judge enable {model}"
    match state:
        case JudgeState.ABSENT:
            return f"{model} is not in the catalog, and {_askers(evidence)}", enable
        case JudgeState.NOT_A_JUDGE:
            return _no_judge(evidence), f"{enable} --replace"
        case JudgeState.NO_REPLICA:
            why = f": {evidence.trouble}" if evidence.trouble else ""
            return f"{model} has no replica that is ready{why}", f"llmgw ctl model explain {model}"
        case JudgeState.WRONG:
            return f"{model} is quarantined: {_canaries(canaries)}", f"{enable} --replace"
        case JudgeState.DEAD:
            ready = counted(evidence.replicas_ready, "replica")
            return f"{model} does not answer, though {ready} should be ready", f"llmgw ctl replica list --model {model}"
        case JudgeState.OVERLOADED:
            count = evidence.traffic.failures.get(FailureKind.OVERLOADED, 0)
            requests = counted(count, "request")
            return (
                f"{model} is overloaded: it had no room for {requests} in the last minute",
                f"llmgw ctl model scale {model} {evidence.replicas_wanted + 1}",
            )
        case JudgeState.SLOW:
            return _slow(evidence), f"llmgw ctl model scale {model} {evidence.replicas_wanted + 1}"
        case JudgeState.UNPROVEN:
            return f"{model} is ready and has not answered its canaries yet", None
        case JudgeState.HEALTHY:
            ready = counted(evidence.replicas_ready, "replica")
            return f"{model} is healthy: {_canaries(canaries)}, {ready} ready", None


def _askers(evidence: JudgeEvidence) -> str:
    names = evidence.policies
    if len(names) == 1:
        return f"policy {names[0]} asks it"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""  # noqa: PLR2004 - as many as a sentence bears
    return f"policies {', '.join(names[:3])}{more} ask it"


def _canaries(report: CanaryReport | None) -> str:
    return f"it {report.text}" if report is not None else "nothing is known of its canaries"


def _no_judge(evidence: JudgeEvidence) -> str:
    model = evidence.model
    if evidence.role is not Role.GUARD:
        return f"{model} is a model in role {evidence.role}, not a judge in role {Role.GUARD}"
    if evidence.recognition.other is not None:
        return f"{model} is {evidence.recognition.other}, which llmgw does not know how to ask"
    return (
        f"{model} is in role {Role.GUARD}, but its files are those of no judge, and no policy says which family it is"
    )


def _slow(evidence: JudgeEvidence) -> str:
    late = evidence.traffic.failures.get(FailureKind.TIMEOUT, 0)
    limit = f"{evidence.timeout_s:g} s"
    if late:
        return (
            f"{evidence.model} is slow: {counted(late, 'answer')} in the last minute came later than {limit} or never"
        )
    seconds = max(evidence.traffic.median_s or 0.0, evidence.canary_s or 0.0)
    return f"{evidence.model} is slow: it takes {seconds:.1f} s of the {limit} it has"
