"""`ctl guard policy apply -f FILE`."""

import click

from llmgw.ctl.guard_policy_file import read_policies
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.guard import PolicyDiff


@click.command("apply")
@click.option("-f", "--file", required=True, help="File of policies; - is standard input.")
@pass_session
def guard_policy_apply(session: Session, /, *, file: str) -> None:
    """Make the policies those of a file: what it does not name is deleted.

    Nothing is changed when anything in it is wrong.
    """
    answer = session.api.call("PUT", "/api/v1/guard/policies", read_policies(file))
    session.show(answer, PolicyDiff, told)


def told(diff: PolicyDiff) -> str:
    """Give what changed, and what the policies lack."""
    return "\n".join([diff.text, *(f"warning: {warning}" for warning in diff.warnings)])
