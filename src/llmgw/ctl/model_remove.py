"""`ctl model remove NAME`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("remove")
@click.argument("name")
@pass_session
def model_remove(session: Session, name: str) -> None:
    """Stop serving a model: open requests end, then its replicas stop. The weights stay where they are."""
    answer = session.api.delete(f"/api/v1/models/{segment(name)}")
    session.say(f"{name} is removed", answer)
