"""`ctl gateway remove NAME`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("remove")
@click.argument("name")
@pass_session
def gateway_remove(session: Session, name: str) -> None:
    """Take the trust from a gateway that joined: its stream is closed, and it can join with a new token only."""
    answer = session.api.delete(f"/api/v1/gateways/{segment(name)}")
    session.say(f"{name} is removed", answer)
