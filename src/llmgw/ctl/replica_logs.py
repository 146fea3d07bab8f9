"""`ctl replica logs REPLICA`."""

import click

from llmgw.ctl.session import Session, pass_session, segment
from llmgw.schema.admin.replica import ReplicaLogs


@click.command("logs")
@click.argument("replica")
@click.option("--first", "attempt", flag_value=1, type=int, help="The first start's log, which often holds the cause.")
@click.option("--attempt", type=click.IntRange(min=1), help="The log of this start; default the newest.")
@pass_session
def replica_logs(session: Session, replica: str, attempt: int | None) -> None:
    """Print the end of the engine's log, shard by shard.

    The logs of the first start and of the newest five are kept.
    """
    query = "" if attempt is None else f"?attempt={attempt}"
    session.show(session.api.get(f"/api/v1/replicas/{segment(replica)}/logs{query}"), ReplicaLogs, _text)


def _text(answer: ReplicaLogs) -> str:
    parts = []
    for log in answer.logs:
        head = f"== {log.shard} on {log.node}" + (f", start {log.attempt}" if log.attempt is not None else "")
        parts.append(f"{head}\n{log.error or (log.text or '').rstrip() or '(the log is empty)'}")
    return "\n".join(parts)
