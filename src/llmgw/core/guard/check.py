"""What a policy may say. Checked before anything changes: an error names the field and what is allowed."""

import re
from collections.abc import Iterable

from llmgw.core.guard import json_shape
from llmgw.core.guard.linear import MAX_PATTERN, BadPattern, Pattern
from llmgw.core.guard.personal_data import regions
from llmgw.schema.errors import InvalidInput
from llmgw.schema.guard.category import Category
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.guard.policy import MAX_POLICIES, MAX_RULES, Attachment, Policy, PolicyFile
from llmgw.schema.guard.rule import (
    KINDS,
    Action,
    Controversial,
    FailureKind,
    Limits,
    OnFailure,
    Rule,
    Stage,
)

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
MAX_PATTERNS = 100
"""Patterns of one rule."""
MAX_TIMEOUT_S = 300.0
MAX_GUIDELINE = 8000
MAX_PRIORITY = 1_000_000
_NAME = re.compile(NAME_PATTERN)
_REDACTING = ("pattern", "secrets", "personal_data")
_NO_CHANGE = "fields that would do nothing are refused, so that nobody relies on them"


def checked(file: PolicyFile) -> PolicyFile:
    """Give the policies back, or raise `InvalidInput`."""
    if len(file.policies) > MAX_POLICIES:
        raise InvalidInput(f"policies: more than {MAX_POLICIES}", field="policies", allowed=(f"0..{MAX_POLICIES}",))
    _unique((policy.name for policy in file.policies), "policies")
    for index, policy in enumerate(file.policies):
        checked_policy(policy, f"policies[{index}]")
    check_families(file.policies)
    return file


def checked_policy(policy: Policy, at: str = "") -> Policy:
    """Give one policy back, or raise `InvalidInput`; `at` is where it stands, for the names of fields."""
    _name(policy.name, _join(at, "name"))
    if isinstance(policy.attach, Attachment) and _empty(policy.attach):
        raise InvalidInput(
            f"{_join(at, 'attach')}: names nothing, so that the policy would never apply",
            hint="write attach: all, or name projects, keys or models",
            field=_join(at, "attach"),
            allowed=("all", "projects", "keys", "models"),
        )
    if abs(policy.priority) > MAX_PRIORITY:
        raise _wrong(
            _join(at, "priority"), f"must be within {MAX_PRIORITY} of 0", (f"-{MAX_PRIORITY}..{MAX_PRIORITY}",)
        )
    if not 0 < len(policy.rules) <= MAX_RULES:
        raise _wrong(_join(at, "rules"), f"must be 1 to {MAX_RULES} rules", (f"1..{MAX_RULES}",))
    _unique((rule.name for rule in policy.rules), _join(at, "rules"))
    for index, rule in enumerate(policy.rules):
        _rule(rule, _join(at, f"rules[{index}]"))
    return policy


def check_families(policies: Iterable[Policy]) -> None:
    """Raise `InvalidInput` when two rules say that one judge is of two families."""
    said: dict[str, JudgeFamily] = {}
    for policy in policies:
        for rule in policy.rules:
            if rule.judge is None or rule.family is None:
                continue
            before = said.setdefault(rule.judge, rule.family)
            if before is not rule.family:
                raise InvalidInput(
                    f"family: judge {rule.judge} is said to be {before} and {rule.family}",
                    hint="a judge is of one family; write the same everywhere",
                    field="family",
                    allowed=tuple(JudgeFamily),
                )


def _rule(rule: Rule, at: str) -> None:
    _name(rule.name, f"{at}.name")
    given = [name for name in KINDS if getattr(rule, name) is not None]
    if len(given) != 1:
        told = f"has {' and '.join(given)}" if given else "looks for nothing"
        raise InvalidInput(
            f"{at}: rule {rule.name} {told}; exactly one of these is needed: {', '.join(KINDS)}",
            field=f"{at}.{given[1]}" if given else at,
            allowed=KINDS,
        )
    kind = given[0]
    _action(rule, kind, at)
    _stage(rule, at)
    _failures(rule, at)
    _idle_fields(rule, kind, at)
    match kind:
        case "pattern":
            _patterns(rule, f"{at}.pattern")
        case "limits" if rule.limits is not None:
            _limits(rule.limits, f"{at}.limits")
        case "judge":
            _judge(rule, at)
        case "secrets" | "personal_data" | "allow_models":
            if not getattr(rule, kind):
                raise _wrong(f"{at}.{kind}", "names nothing", ("all",) if kind != "allow_models" else None)
    for region in rule.regions:
        if region not in regions():
            raise _wrong(f"{at}.regions", f"{region!r} is no country with telephone numbers", ("DE", "US", "…"))


def _action(rule: Rule, kind: str, at: str) -> None:
    if rule.action is Action.REDACT and kind not in _REDACTING:
        allowed = tuple(action.value for action in Action if action is not Action.REDACT)
        raise _wrong(f"{at}.action", f"a rule by {kind} knows no place to redact", allowed)


def _stage(rule: Rule, at: str) -> None:
    asks_input = rule.allow_models is not None or (
        rule.limits is not None and (rule.limits.max_messages is not None or rule.limits.max_tools is not None)
    )
    if asks_input and rule.stage is Stage.OUTPUT:
        raise _wrong(f"{at}.stage", "this rule is about requests, not about answers", ("input", "both"))
    if rule.limits is not None and rule.limits.json_schema is not None and rule.stage is Stage.INPUT:
        raise _wrong(f"{at}.stage", "json_schema is about answers, not about requests", ("output", "both"))


def _failures(rule: Rule, at: str) -> None:
    for failure in FailureKind:
        if rule.action is Action.SHADOW and getattr(rule.on_failure, failure) is OnFailure.CLOSED:
            raise _wrong(f"{at}.on_failure.{failure}", "a rule in shadow refuses nothing", (OnFailure.OPEN.value,))


def _idle_fields(rule: Rule, kind: str, at: str) -> None:
    idle = {
        "threshold": kind != "judge" and rule.threshold != 0.5,  # noqa: PLR2004 - its default
        "exclude": kind != "judge" and bool(rule.exclude),
        "controversial": kind != "judge" and rule.controversial is not Controversial.UNSAFE,
        "guideline": kind != "judge" and rule.guideline is not None,
        "family": kind != "judge" and rule.family is not None,
        "regions": kind != "personal_data" and bool(rule.regions),
        "replacement": rule.action is not Action.REDACT and rule.replacement is not None,
    }
    for name, without_effect in idle.items():
        if without_effect:
            raise InvalidInput(
                f"{at}.{name}: has no effect in a rule by {kind} that does {rule.action}",
                hint=_NO_CHANGE,
                field=f"{at}.{name}",
            )


def _patterns(rule: Rule, at: str) -> None:
    expressions = (rule.pattern,) if isinstance(rule.pattern, str) else rule.pattern or ()
    if not 0 < len(expressions) <= MAX_PATTERNS:
        raise _wrong(at, f"must be 1 to {MAX_PATTERNS} patterns", (f"1..{MAX_PATTERNS}",))
    for expression in expressions:
        if len(expression) > MAX_PATTERN:
            raise _wrong(at, f"is longer than {MAX_PATTERN} characters", (f"1..{MAX_PATTERN} characters",))
        try:
            Pattern(expression)
        except BadPattern as error:
            raise InvalidInput(
                f"{at}: {expression[:100]!r} {error}",
                hint="patterns are in RE2's syntax, which has no look-around and no back-references",
                field=at,
            ) from error


def _limits(limits: Limits, at: str) -> None:
    numbers = {name: getattr(limits, name) for name in ("max_characters", "max_messages", "max_tools")}
    for name, most in numbers.items():
        if most is not None and most < 0:
            raise _wrong(f"{at}.{name}", "must be 0 or more", ("0 or more",))
    if limits.json_schema is not None:
        json_shape.checked(limits.json_schema, f"{at}.json_schema")
    elif not any(most is not None for most in numbers.values()):
        raise _wrong(at, "limits nothing", (*numbers, "json_schema"))


def _judge(rule: Rule, at: str) -> None:
    if not rule.judge:
        raise InvalidInput(f"{at}.judge: names no model", field=f"{at}.judge")
    if not 0 < rule.threshold < 1:
        raise _wrong(f"{at}.threshold", "must be a probability between 0 and 1", ("between 0 and 1",))
    if not 0 < rule.timeout_s <= MAX_TIMEOUT_S:
        raise _wrong(f"{at}.timeout_s", f"must be more than 0 and at most {MAX_TIMEOUT_S:g} seconds", ("0..300",))
    if set(rule.exclude) >= set(Category):
        raise _wrong(f"{at}.exclude", "leaves no category, so that nothing would be a finding", None)
    if rule.guideline is None:
        return
    if rule.family not in {None, JudgeFamily.PROMPTED}:
        raise _wrong(f"{at}.guideline", f"judges of family {rule.family} read no guideline", None)
    if not 0 < len(rule.guideline.strip()) <= MAX_GUIDELINE:
        raise _wrong(f"{at}.guideline", f"must be 1 to {MAX_GUIDELINE} characters", (f"1..{MAX_GUIDELINE}",))


def _name(name: str, at: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{at}: {name[:100]!r} is not allowed",
            hint="use 1 to 63 letters, digits and . _ -, beginning with a letter or digit",
            field=at,
            allowed=("letters", "digits", ". _ -"),
        )


def _unique(names: Iterable[str], at: str) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise InvalidInput(f"{at}[{index}].name: {name!r} is there already", field=f"{at}[{index}].name")
        seen.add(name)


def _wrong(field: str, told: str, allowed: tuple[str, ...] | None) -> InvalidInput:
    return InvalidInput(f"{field}: {told}", field=field, allowed=allowed)


def _empty(attachment: Attachment) -> bool:
    return not (attachment.projects or attachment.keys or attachment.models)


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name
