"""`ctl node remove NODE`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("remove")
@click.argument("node")
@pass_session
def node_remove(session: Session, node: str) -> None:
    """Forget a node whose agent is gone. What it held is free, and its replicas are replaced elsewhere."""
    answer = session.api.delete(f"/api/v1/nodes/{segment(node)}")
    session.say(f"{node} is removed", answer)
