"""Policies of the guardrails: one file says all there is to be."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from llmgw.core.guard.check import checked
from llmgw.core.guard.judge_evidence import asked_judges
from llmgw.core.guard.policy_changes import PolicyChanges, exported, policy_changes, written
from llmgw.ports import AppendEvent, Clock, DeletePolicy, FleetRows, PutPolicy, Write
from llmgw.schema.admin.guard import PolicyDiff, StoredPolicies
from llmgw.schema.event import Event, Severity
from llmgw.schema.guard.policy import Attachment, PolicyFile, StoredPolicy
from llmgw.schema.model import Role
from llmgw.server.fleet import Fleet


def stored(fleet: Fleet) -> StoredPolicies:
    """Give all policies with their revisions, by name."""
    return StoredPolicies(policies=fleet.policies)


def export(fleet: Fleet) -> dict[str, Any]:
    """Give the file that applying would change nothing by, without what has its default value."""
    return written(exported(fleet.policies))


def diff(fleet: Fleet, clock: Clock, file: PolicyFile) -> PolicyDiff:
    """Say what applying the file would change. Raises `InvalidInput` naming the field."""
    return _told(policy_changes(fleet.policies, checked(file), now=clock.now()), fleet, file)


async def apply(fleet: Fleet, clock: Clock, file: PolicyFile, *, actor: str) -> PolicyDiff:
    """Make the policies those of the file; others are deleted. Raises `InvalidInput`, and then nothing changed."""
    checked(file)
    done: list[PolicyChanges] = []

    def decide(_: FleetRows) -> tuple[Write, ...]:
        now = clock.now()
        changes = policy_changes(fleet.policies, file, now=now)
        done.append(changes)
        return tuple(_writes(changes, now, actor))

    await fleet.change(decide)
    return _told(done[-1], fleet, file)


def _writes(changes: PolicyChanges, now: datetime, actor: str) -> Iterator[Write]:
    for policy in changes.put:
        yield PutPolicy(policy=policy)
        yield _event(f"policy {policy.policy.name}: now at revision {policy.revision}", "policy.changed", now, actor)
    for name in changes.deleted:
        yield DeletePolicy(name=name)
        yield _event(f"policy {name}: deleted", "policy.deleted", now, actor)


def _event(told: str, kind: str, now: datetime, actor: str) -> AppendEvent:
    return AppendEvent(event=Event(at=now, kind=kind, severity=Severity.INFO, message=told, actor=actor))


def _told(changes: PolicyChanges, fleet: Fleet, file: PolicyFile) -> PolicyDiff:
    return PolicyDiff(
        put=tuple(policy.policy.name for policy in changes.put),
        deleted=changes.deleted,
        text=changes.text,
        warnings=(*_judges(fleet, file), *_keys(fleet, file)),
    )


def _judges(fleet: Fleet, file: PolicyFile) -> Iterator[str]:
    roles = {model.name: model.role for model in fleet.rows.models}
    now = (StoredPolicy(policy=policy, changed_at=datetime.min) for policy in file.policies)  # noqa: DTZ901 - not kept
    for judge in asked_judges(now):
        asks = f"{' and '.join(judge.policies)} asks it" if len(judge.policies) == 1 else "policies ask it"
        if judge.model not in roles:
            yield f"judge {judge.model} is not in the catalog, and {asks}: llmgw ctl guard judge enable {judge.model}"
        elif roles[judge.model] is not Role.GUARD:
            cure = f"llmgw ctl guard judge enable {judge.model} --replace"
            yield f"judge {judge.model} is a model in role {roles[judge.model]}, and {asks}: {cure}"


def _keys(fleet: Fleet, file: PolicyFile) -> Iterator[str]:
    known = {key.id for key in fleet.api_keys if key.revoked_at is None}
    for policy in file.policies:
        for attachment in (policy.attach, policy.exempt):
            missing = sorted(set(attachment.keys) - known) if isinstance(attachment, Attachment) else ()
            for key in missing:
                yield f"policy {policy.name} names key {key}, which nobody has"
