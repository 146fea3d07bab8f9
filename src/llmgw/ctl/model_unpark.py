"""`ctl model unpark NAME`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("unpark")
@click.argument("name")
@pass_session
def model_unpark(session: Session, name: str) -> None:
    """Try a parked model again, with its failures forgotten."""
    answer = session.api.post(f"/api/v1/models/{segment(name)}/unpark")
    session.say(f"{name} is tried again", answer)
