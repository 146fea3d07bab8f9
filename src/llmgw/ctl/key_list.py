"""`ctl key list`."""

import click

from llmgw.ctl.output import age, ago, table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.key import KeyList


@click.command("list")
@pass_session
def key_list(session: Session) -> None:
    """List all API keys, revoked ones included."""
    session.show(session.api.get("/api/v1/keys"), KeyList, _table)


def _table(answer: KeyList) -> str:
    rows = [(row.id, row.name, row.project, age(row.created_at), ago(row.revoked_at) or "") for row in answer.keys]
    return table(("KEY", "NAME", "PROJECT", "AGE", "REVOKED"), rows, empty="no keys")
