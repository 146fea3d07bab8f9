"""`ctl node cordon NODE`."""

import click

from llmgw.ctl.session import Session, pass_session, segment


@click.command("cordon")
@click.argument("node")
@click.option("--reason", help="Shown beside the node's state.")
@pass_session
def node_cordon(session: Session, node: str, reason: str | None) -> None:
    """Place nothing new on a node. What runs there keeps running; a drain ends."""
    query = f"?reason={segment(reason)}" if reason else ""
    answer = session.api.post(f"/api/v1/nodes/{segment(node)}/cordon{query}")
    session.say(f"{node} is cordoned", answer)
