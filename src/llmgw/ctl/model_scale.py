"""`ctl model scale NAME N`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("scale")
@click.argument("name")
@click.argument("replicas", type=click.IntRange(min=0))
@pass_session
def model_scale(session: Session, name: str, replicas: int) -> None:
    """Set how many replicas a model has."""
    answer = session.api.post(f"/api/v1/models/{segment(name)}/scale", {"replicas": replicas})
    session.say(f"{name} will have {replicas} replicas", answer)
