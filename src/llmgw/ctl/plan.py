"""`ctl plan`: what would be started and stopped now, what fits nowhere, and whom that hurts."""

import click

from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.plan import PlanAnswer

CHANGES = 10
HURTS = 11


@click.command()
@click.option("--exit-code", is_flag=True, help="End with 0 for no change, 10 for changes, 11 for changes that hurt.")
@click.pass_context
@pass_session
def plan(session: Session, ctx: click.Context, *, exit_code: bool) -> None:
    """Say what would be started and stopped now, and what fits nowhere.

    The control plane carries its plans out at once, so mostly there is nothing to do. A change hurts when a model loses
    a ready replica that it needs.
    """
    answer = session.api.get("/api/v1/plan")
    session.show(answer, PlanAnswer, lambda told: told.text)
    if exit_code:
        ctx.exit(code(answer.get("changes", 0), answer.get("hurts", ())))


def code(changes: int, hurts: object) -> int:
    """Give the exit code for so many changes, some of which may hurt."""
    if hurts:
        return HURTS
    return CHANGES if changes else 0
