"""`ctl node drain NODE`."""

import click

from llmgw.ctl.session import Session, pass_session, segment
from llmgw.schema.admin.drain import Drain


@click.command("drain")
@click.argument("node")
@click.option("--dry-run", is_flag=True, help="Only say what would move, wait and break.")
@click.option("--reason", help="Shown beside the node's state.")
@pass_session
def node_drain(session: Session, node: str, *, dry_run: bool, reason: str | None) -> None:
    """Move all replicas off a node: each is replaced first where that fits, then its open requests end, then it stops.

    The node is cordoned with the reason "drained" once it is empty. Replicas that fit nowhere else serve on until they
    do.
    """
    query = f"?dry_run={str(dry_run).lower()}" + (f"&reason={segment(reason)}" if reason else "")
    answer = session.api.post(f"/api/v1/nodes/{segment(node)}/drain{query}")
    session.show(answer, Drain, text)


def text(drain: Drain) -> str:
    """Give a drain as lines: what moves, what waits, what breaks."""
    seen = drain.preview
    head = f"{drain.node.id} would drain; nothing was changed" if drain.dry_run else f"{drain.node.id} drains"
    lines = [f"moves   {one.replica} of {one.model} {_where(one.to)}" for one in seen.moves]
    lines += [f"waits   {one.replica} of {one.model}: {one.reason}" for one in seen.waits]
    lines += [f"breaks  {one.replica} of {one.model}: {one.reason}" for one in seen.breaks]
    return "\n".join([head, *(lines or ["nothing runs on it"])])


def _where(nodes: tuple[str, ...]) -> str:
    return f"to {', '.join(nodes)}" if nodes else "to the model's other replicas"
