"""What applying a file of policies changes: the file says all there is to be."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from llmgw.schema.guard.policy import Policy, PolicyFile, StoredPolicy


class PolicyChanges(NamedTuple):
    """Policies to be put and names to be deleted. Applying the same file again changes nothing."""

    put: tuple[StoredPolicy, ...]
    deleted: tuple[str, ...]
    text: str
    """For people: a line for each policy that changes, and under it each field that does."""

    @property
    def empty(self) -> bool:
        """True when nothing changes."""
        return not self.put and not self.deleted


def policy_changes(stored: Iterable[StoredPolicy], wanted: PolicyFile, *, now: datetime) -> PolicyChanges:
    """Compare what there is with what there is to be. The policies were checked before."""
    before = {one.policy.name: one for one in stored}
    put: list[StoredPolicy] = []
    lines: list[str] = []
    for policy in wanted.policies:
        known = before.pop(policy.name, None)
        if known is None:
            put.append(StoredPolicy(policy=policy, revision=1, changed_at=now))
            lines += [f"+ {policy.name}: new, {_rules(policy)}"]
        elif known.policy != policy:
            put.append(StoredPolicy(policy=policy, revision=known.revision + 1, changed_at=now))
            lines += [f"~ {policy.name}: revision {known.revision + 1}", *_differences(known.policy, policy)]
    lines += [f"- {name}: deleted, {_rules(before[name].policy)}" for name in sorted(before)]
    return PolicyChanges(tuple(put), tuple(sorted(before)), "\n".join(lines) or "nothing changes")


def exported(stored: Iterable[StoredPolicy]) -> PolicyFile:
    """Give the file that applying would change nothing by."""
    return PolicyFile(policies=tuple(one.policy for one in sorted(stored, key=lambda one: one.policy.name)))


def written(file: PolicyFile) -> dict[str, Any]:
    """Give the file as plain data, without what has its default value."""
    return {"policies": [_plain(policy) for policy in file.policies]}


def _plain(value: Any) -> Any:
    """Leave defaults out: what an operator did not write, a file need not say."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        given = [(field, getattr(value, field.name)) for field in fields]
        return {field.encode_name: _plain(item) for field, item in given if field.required or item != field.default}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return msgspec.to_builtins(value)


def _differences(before: Policy, after: Policy) -> list[str]:
    lines = []
    for name in ("attach", "exempt", "priority", "unscannable"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            lines.append(f"    {name}: {_short(old)} -> {_short(new)}")
    old_rules, new_rules = ({rule.name: rule for rule in one.rules} for one in (before, after))
    for name, rule in new_rules.items():
        if name not in old_rules:
            lines.append(f"    + rule {name}: {_short(rule)}")
            continue
        was, is_now = _plain(old_rules[name]), _plain(rule)
        lines += [
            f"    ~ rule {name}: {field}: {_short(was.get(field))} -> {_short(is_now.get(field))}"
            for field in dict.fromkeys((*was, *is_now))
            if was.get(field) != is_now.get(field)
        ]
    lines += [f"    - rule {name}" for name in old_rules if name not in new_rules]
    return lines or ["    rules: another order"]


def _short(value: Any) -> str:
    text = "unset" if value is None else msgspec.json.encode(_plain(value)).decode()
    return text if len(text) <= 100 else text[:97] + "..."  # noqa: PLR2004 - as much as a line bears


def _rules(policy: Policy) -> str:
    count = len(policy.rules)
    return f"{count} rule" if count == 1 else f"{count} rules"
