"""`ctl token list`."""

import click

from llmgw.ctl.output import age, ago, table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.token import TokenList


@click.command("list")
@pass_session
def token_list(session: Session) -> None:
    """List all operators' tokens, revoked ones included."""
    session.show(session.api.get("/api/v1/tokens"), TokenList, _table)


def _table(answer: TokenList) -> str:
    rows = [(row.id, row.name, row.role, age(row.created_at), ago(row.revoked_at) or "") for row in answer.tokens]
    return table(("TOKEN", "NAME", "ROLE", "AGE", "REVOKED"), rows, empty="no tokens")
