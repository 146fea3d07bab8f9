"""`ctl alias remove NAME`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("remove")
@click.argument("name")
@pass_session
def alias_remove(session: Session, name: str) -> None:
    """Remove an alias. The models behind it stay."""
    answer = session.api.delete(f"/api/v1/aliases/{segment(name)}")
    session.say(f"{name} is no alias any more", answer)
