"""`ctl guard policy list`."""

import click

from llmgw.ctl.output import age, table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.guard import StoredPolicies
from llmgw.schema.guard.policy import Attachment, StoredPolicy


@click.command("list")
@pass_session
def guard_policy_list(session: Session) -> None:
    """List all policies."""
    session.show(session.api.get("/api/v1/guard/policies/stored"), StoredPolicies, _table)


def _table(answer: StoredPolicies) -> str:
    rows = [
        (
            stored.policy.name,
            stored.revision,
            age(stored.changed_at),
            _attached(stored),
            ", ".join(f"{rule.name} ({rule.action})" for rule in stored.policy.rules),
        )
        for stored in answer.policies
    ]
    columns = ("POLICY", "REVISION", "AGE", "ATTACHED TO", "RULES")
    return table(columns, rows, empty="no policies; make some: llmgw ctl guard policy apply -f FILE")


def _attached(stored: StoredPolicy) -> str:
    attach = stored.policy.attach
    if not isinstance(attach, Attachment):
        return "all"
    parts = (("projects", attach.projects), ("keys", attach.keys), ("models", attach.models))
    return "; ".join(f"{kind} {', '.join(names)}" for kind, names in parts if names)
