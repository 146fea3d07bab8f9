"""`ctl server resume`."""

import click

from llmgw.ctl.session import Session, pass_session


@click.command("resume")
@pass_session
def server_resume(session: Session) -> None:
    """Order nodes again after a restore.

    What the store says is carried out: replicas that are missing are started, engines it does not know are stopped.
    """
    answer = session.api.post("/api/v1/control-planes/resume")
    text = "nodes are ordered again" if answer["was_observing"] else "nodes were ordered already: nothing to resume"
    session.say(text, answer)
