"""`ctl replica list`."""

import click

from llmgw.ctl.output import age, table
from llmgw.ctl.session import Session, pass_session
from llmgw.schema.admin.replica import ReplicaList, ReplicaRow


@click.command("list")
@click.option("--model", help="Only this model's.")
@pass_session
def replica_list(session: Session, model: str | None) -> None:
    """List all replicas with where they run, and why they were started again."""
    answer = session.api.get("/api/v1/replicas")
    if model is not None:
        session.read(answer, ReplicaList)
        answer["replicas"] = [row for row in answer["replicas"] if row["model"] == model]
    session.show(answer, ReplicaList, _table)


def _table(answer: ReplicaList) -> str:
    rows = [
        (
            row.id,
            row.model,
            row.state,
            [shard.node for shard in row.shards],
            [shard.pid for shard in row.shards if shard.pid is not None],
            age(row.state_since),
            row.restart_count,
            _why(row),
        )
        for row in answer.replicas
    ]
    columns = ("REPLICA", "MODEL", "STATE", "NODES", "PIDS", "SINCE", "RESTARTS", "REASON")
    return table(columns, rows, empty="no replicas")


def _why(row: ReplicaRow) -> str:
    if row.reason:
        return row.reason
    return f"restarted: {row.restarts[-1].reason}" if row.restarts else ""
