"""`ctl server remove NAME`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("remove")
@click.argument("name")
@pass_session
def server_remove(session: Session, name: str) -> None:
    """Forget a control plane that is gone for good."""
    answer = session.api.delete(f"/api/v1/control-planes/{segment(name)}")
    session.say(f"{name} is forgotten", answer)
