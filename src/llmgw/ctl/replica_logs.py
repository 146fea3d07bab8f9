"""`ctl replica logs REPLICA`."""

import click

from llmgw.ctl.session import Session, pass_session, segment
from llmgw.schema.admin.replica import ReplicaLogs


@click.command("logs")
@click.argument("replica")
@pass_session
def replica_logs(session: Session, replica: str) -> None:
    """Print the end of the engine's log, shard by shard."""
    session.show(session.api.get(f"/api/v1/replicas/{segment(replica)}/logs"), ReplicaLogs, _text)


def _text(answer: ReplicaLogs) -> str:
    parts = []
    for log in answer.logs:
        head = f"== {log.shard} on {log.node}" + (f", start {log.attempt}" if log.attempt is not None else "")
        parts.append(f"{head}\n{log.error or (log.text or '').rstrip() or '(the log is empty)'}")
    return "\n".join(parts)
