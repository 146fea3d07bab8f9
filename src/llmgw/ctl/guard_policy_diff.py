"""`ctl guard policy diff -f FILE`."""

import click

from llmgw.ctl.guard_policy_apply import told
from llmgw.ctl.guard_policy_file import read_policies
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.guard import PolicyDiff

CHANGES = 10


@click.command("diff")
@click.option("-f", "--file", required=True, help="File of policies; - is standard input.")
@click.option("--exit-code", is_flag=True, help="End with 0 for no change, 10 for changes.")
@click.pass_context
@pass_session
def guard_policy_diff(session: Session, ctx: click.Context, /, *, file: str, exit_code: bool) -> None:
    """Say what applying a file would change; nothing does."""
    answer = session.api.post("/api/v1/guard/policies/diff", read_policies(file))
    session.show(answer, PolicyDiff, told)
    if exit_code and (answer.get("put") or answer.get("deleted")):
        ctx.exit(CHANGES)
