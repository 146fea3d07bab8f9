"""Guard: the judges with their problems, the policies, and what guardrails did lately."""

from collections import Counter

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from llmgw.console.frame import SEE_OTHER, Frame, session_over
from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.policy import Attachment, StoredPolicy
from llmgw.schema.guard.rule import kind
from llmgw.schema.key import AdminToken
from llmgw.schema.value import Value
from llmgw.server.services import judges

_LATEST = 20
"""Records that are shown."""


class RuleLine(Value, frozen=True, kw_only=True):
    """One rule as the page shows it. Never its patterns: they may tell what is looked for."""

    name: str
    looks_for: str
    stage: str
    action: str


class PolicyRow(Value, frozen=True, kw_only=True):
    """One policy as the page shows it."""

    stored: StoredPolicy
    attached: str
    rules: tuple[RuleLine, ...]


def routes(frame: Frame) -> tuple[Route, ...]:
    """Give `/guard`, and the part of it that a page fetches again every two seconds."""

    async def page(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return RedirectResponse("/login", SEE_OTHER)
        return _render(frame, "guard.html", visitor)

    async def live(request: Request) -> Response:
        visitor = frame.visitor(request)
        if visitor is None:
            return session_over()
        return _render(frame, "guard_live.html", visitor)

    return (Route("/guard", page, methods=["GET"]), Route("/guard/live", live, methods=["GET"]))


def policy_row(stored: StoredPolicy) -> PolicyRow:
    """Put a policy into words."""
    attach = stored.policy.attach
    attached = "everything"
    if isinstance(attach, Attachment):
        parts = (("projects", attach.projects), ("keys", attach.keys), ("models", attach.models))
        attached = "; ".join(f"{name} {', '.join(given)}" for name, given in parts if given)
    rules = tuple(
        RuleLine(
            name=rule.name,
            looks_for=f"judge {rule.judge}" if rule.judge is not None else kind(rule).replace("_", " "),
            stage=rule.stage.value,
            action=rule.action.value,
        )
        for rule in stored.policy.rules
    )
    return PolicyRow(stored=stored, attached=attached, rules=rules)


def _render(frame: Frame, template: str, visitor: AdminToken) -> Response:
    fleet = frame.fleet
    entries = fleet.audit.newest()
    outcomes = Counter(entry.coverage.outcome for entry in entries)
    return frame.pages.page(
        template,
        logged_in=True,
        here="guard",
        visitor=visitor,
        now=frame.clock.now(),
        leads=fleet.is_leader(),
        judges=judges.judge_statuses(fleet),
        policies=[policy_row(stored) for stored in fleet.policies],
        counts=[(outcome.value, outcomes[outcome]) for outcome in Outcome if outcomes[outcome]],
        entries=entries[:_LATEST],
        bypassed=sum(scan.bypassed for entry in entries for scan in entry.coverage.scans),
    )
