"""What is known of the judges that policies ask: gathered from policies, catalog, nodes' weights and gateways."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from llmgw.core.demand import desired_replicas
from llmgw.core.guard.judge_status import JudgeEvidence, JudgeTraffic
from llmgw.core.guard.judges.diagnosis import QUARANTINED
from llmgw.core.guard.judges.recognise import Recognition, recognise_weights
from llmgw.core.snapshot import Snapshot
from llmgw.core.wants import is_absent
from llmgw.schema.demand import JudgeReport
from llmgw.schema.guard.judge import CanaryReport, CanaryState, JudgeFamily
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.guard.rule import Action, FailureKind, Rule
from llmgw.schema.model import Model, Role
from llmgw.schema.node import Node
from llmgw.schema.replica import ReplicaState
from llmgw.schema.view import JudgeEntry
from llmgw.schema.weights import Weights

CANARIES_FRESH_S = 90.0
"""A round of canaries that is older says nothing of now: gateways ask every 20 s."""


class Asked(NamedTuple):
    """One judge as policies ask it."""

    model: str
    policies: tuple[str, ...]
    timeout_s: float
    """The shortest limit of the rules that ask it."""
    said: JudgeFamily | None
    """The family that a rule says it is of."""
    enforced: bool
    """Some rule that asks it is more than a shadow."""


def asked_judges(policies: Iterable[StoredPolicy]) -> tuple[Asked, ...]:
    """Give the judges that policies ask, by name."""
    by_judge: dict[str, list[tuple[str, Rule]]] = {}
    for stored in policies:
        for rule in stored.policy.rules:
            if rule.judge is not None:
                by_judge.setdefault(rule.judge, []).append((stored.policy.name, rule))
    return tuple(_asked(judge, by_judge[judge]) for judge in sorted(by_judge))


def needed_judges(policies: Iterable[StoredPolicy], models: Iterable[Model]) -> frozenset[str]:
    """Name the judges of the catalog that must stay: some rule that is more than a shadow asks them."""
    asked = {one.model for one in asked_judges(policies) if one.enforced}
    return frozenset(model.name for model in models if model.role is Role.GUARD and model.name in asked)


def judge_entries(
    policies: Iterable[StoredPolicy], models: Iterable[Model], nodes: Iterable[Node]
) -> tuple[JudgeEntry, ...]:
    """Tell gateways how the judges that policies ask are asked."""
    asked = asked_judges(policies)
    if not asked:
        return ()
    catalog = {model.name: model for model in models if model.role is Role.GUARD}
    there = [(one, catalog[one.model]) for one in asked if one.model in catalog]
    weights = found_weights(nodes, {model.source for _, model in there})
    return tuple(_entry(one, recognise_weights(model.source, weights.get(model.source))) for one, model in there)


def judge_evidence(
    policies: Iterable[StoredPolicy],
    snapshot: Snapshot,
    reports: Mapping[str, Sequence[JudgeReport]],
    troubles: Mapping[str, str],
) -> tuple[JudgeEvidence, ...]:
    """Give all that is known of each judge that policies ask.

    `reports` has by judge what each gateway says now, `troubles` in words why models have no replica.
    """
    asked = asked_judges(policies)
    if not asked:
        return ()
    models = {seen.model.name: seen for seen in snapshot.models}
    states = {seen.node.id: seen.state for seen in snapshot.nodes}
    ready = Counter(
        replica.model
        for replica in snapshot.replicas
        if replica.state is ReplicaState.READY and not is_absent(replica, states)
    )
    sources = {models[one.model].model.source for one in asked if one.model in models}
    weights = found_weights((seen.node for seen in snapshot.nodes), sources)
    found = []
    for one in asked:
        seen, said = models.get(one.model), reports.get(one.model, ())
        source = seen.model.source if seen is not None else ""
        failures = [report.last_failure for report in said if report.last_failure is not None]
        found.append(
            JudgeEvidence(
                model=one.model,
                policies=one.policies,
                timeout_s=one.timeout_s,
                role=seen.model.role if seen is not None else None,
                recognition=recognise_weights(source, weights.get(source)) if source else Recognition(),
                said=one.said,
                replicas_ready=ready[one.model],
                replicas_wanted=desired_replicas(seen.model, seen.wanted) if seen is not None else 0,
                trouble=troubles.get(one.model),
                canaries=_canaries(said),
                canary_s=max((report.canary_s for report in said if report.canary_s is not None), default=None),
                traffic=_traffic(said),
                last_failure=max(failures, key=lambda failure: failure.at, default=None),
            )
        )
    return tuple(found)


def found_weights(nodes: Iterable[Node], sources: set[str]) -> dict[str, Weights]:
    """Give what nodes see at each source; broken weights only where no node sees whole ones."""
    found: dict[str, Weights] = {}
    for node in nodes:
        if sources and len(found) == len(sources) and all(one.problem is None for one in found.values()):
            break
        watched = (one.weights for one in node.facts.watched if one.weights is not None)
        for weights in (*(node.facts.weights or ()), *watched):
            known = found.get(weights.path)
            if weights.path in sources and (known is None or (known.problem and not weights.problem)):
                found[weights.path] = weights
    return found


def _asked(judge: str, rules: list[tuple[str, Rule]]) -> Asked:
    return Asked(
        model=judge,
        policies=tuple(sorted({policy for policy, _ in rules})),
        timeout_s=min(rule.timeout_s for _, rule in rules),
        said=next((rule.family for _, rule in rules if rule.family is not None), None),
        enforced=any(rule.action is not Action.SHADOW for _, rule in rules),
    )


def _entry(one: Asked, recognition: Recognition) -> JudgeEntry:
    family = one.said or recognition.family
    return JudgeEntry(
        model=one.model, family=family, forced=one.said is not None and one.said is not recognition.family
    )


def _canaries(reports: Sequence[JudgeReport]) -> CanaryReport | None:
    """Give the round that says most: one wrong verdict anywhere counts, and silence only where nobody was answered."""

    def weight(report: CanaryReport) -> int:
        return 0 if report.state in QUARANTINED else 1 if report.state is CanaryState.RIGHT else 2

    fresh = [
        report.canaries
        for report in reports
        if report.canaries is not None and (report.canaries_age_s or 0.0) <= CANARIES_FRESH_S
    ]
    return min(fresh, key=weight, default=None)


def _traffic(reports: Sequence[JudgeReport]) -> JudgeTraffic:
    failures: Counter[FailureKind] = Counter()
    for report in reports:
        failures.update(report.failures)
    slow = [report.slowest_s for report in reports if report.slowest_s is not None]
    return JudgeTraffic(
        answered=sum(report.answers for report in reports), failures=dict(failures), median_s=max(slow, default=None)
    )
