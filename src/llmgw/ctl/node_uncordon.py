"""`ctl node uncordon NODE`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("uncordon")
@click.argument("node")
@pass_session
def node_uncordon(session: Session, node: str) -> None:
    """End a cordon or a drain: replicas may be placed on the node again."""
    answer = session.api.post(f"/api/v1/nodes/{segment(node)}/uncordon")
    session.say(f"{node} takes replicas again", answer)
