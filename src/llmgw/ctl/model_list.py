"""`ctl model list`."""

import click

from llmgw.ctl.output import age, table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.model import ModelList


@click.command("list")
@pass_session
def model_list(session: Session) -> None:
    """List all models."""
    session.show(session.api.get("/api/v1/models"), ModelList, _table)


def _table(answer: ModelList) -> str:
    rows = [
        (
            row.name,
            row.role,
            row.state,
            f"{row.ready}/{row.desired}",
            row.profile.engine,
            age(row.created_at),
            row.reason or "",
        )
        for row in answer.models
    ]
    columns = ("MODEL", "ROLE", "STATE", "READY", "ENGINE", "AGE", "REASON")
    return table(columns, rows, empty="no models; serve one: llmgw ctl model serve NAME --source PATH")
