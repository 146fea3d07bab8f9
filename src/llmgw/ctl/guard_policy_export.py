"""`ctl guard policy export`."""

import click

from llmgw.ctl.output import dump
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.guard.policy import PolicyFile


@click.command("export")
@pass_session
def guard_policy_export(session: Session) -> None:
    """Write the policies as a file that `apply` reads; what has its default value is left out."""
    answer = session.api.get("/api/v1/guard/policies")
    session.show(answer, PolicyFile, lambda _: dump(answer, "yaml").rstrip("\n"))
