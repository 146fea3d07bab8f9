"""`ctl alias list`."""

import click

from llmgw.ctl.output import age, table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.alias import AliasList
from llmgw.schema.alias import Alias


@click.command("list")
@pass_session
def alias_list(session: Session) -> None:
    """List all aliases."""
    session.show(session.api.get("/api/v1/aliases"), AliasList, _table)


def _table(answer: AliasList) -> str:
    rows = [
        (alias.name, _shares(alias), ", ".join(alias.fallbacks) or "-", alias.revision, age(alias.changed_at))
        for alias in answer.aliases
    ]
    columns = ("ALIAS", "MODELS", "FALLBACKS", "REVISION", "AGE")
    return table(columns, rows, empty="no aliases; make one: llmgw ctl alias set NAME MODEL")


def _shares(alias: Alias) -> str:
    total = sum(share.weight for share in alias.shares)
    return ", ".join(f"{share.model} {share.weight / total:.0%}" for share in alias.shares)
