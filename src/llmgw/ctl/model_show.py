"""`ctl model show NAME`."""

import click

from llmgw.core.patience import patience_text
from llmgw.ctl.output import age, ago, fields, table
from llmgw.ctl.session import Session, pass_session, segment
from llmgw.schema.admin.model import ModelRow
from llmgw.schema.model import Profile


@click.command("show")
@click.argument("name")
@pass_session
def model_show(session: Session, name: str) -> None:
    """Show one model: how it runs, and why it is as it is."""
    session.show(session.api.get(f"/api/v1/models/{segment(name)}"), ModelRow, text)


def text(row: ModelRow) -> str:
    """Give a model as lines."""
    profile = row.resolved
    head = fields(
        [
            ("model", row.name),
            ("state", row.state),
            ("reason", row.reason),
            ("failed starts", row.failures or None),
            ("role", row.role),
            ("source", row.source),
            ("replicas", f"{row.ready} ready, {row.desired} wanted (min {row.min}, max {row.max})"),
            ("stopped when idle", row.idle_s and f"after {row.idle_s:g} s"),
            ("on silent nodes", row.lost_after and patience_text(row.lost_after)),
            ("routing", row.routing),
            ("engine", " ".join(filter(None, (profile.engine, profile.engine_version, profile.variant)))),
            ("context", profile.context and f"{profile.context} tokens a slot"),
            ("slots", profile.slots),
            ("cores", profile.cores),
            ("memory", profile.memory_gb and f"{profile.memory_gb:g} GiB"),
            ("devices", _devices(profile)),
            ("flags", [f"{key}={value}" for key, value in profile.flags.items()] or None),
            ("revision", row.revision),
            ("created", ago(row.created_at)),
        ]
    )
    return "\n\n".join(part for part in (head, _replicas(row), _rejections(row)) if part)


def _devices(profile: Profile) -> str | None:
    if not profile.devices_per_node:
        return None
    return f"{profile.devices_per_node} x {profile.device_class} a node"


def _replicas(row: ModelRow) -> str:
    rows = [
        (
            item.id,
            item.state,
            [shard.node for shard in item.shards],
            age(item.state_since),
            item.restart_count,
            item.reason,
        )
        for item in row.replicas
    ]
    return table(("REPLICA", "STATE", "NODES", "SINCE", "RESTARTS", "REASON"), rows, empty="")


def _rejections(row: ModelRow) -> str:
    rows = [(item.node, item.constraint, item.detail) for item in row.rejections]
    return table(("NODE", "CONSTRAINT", "WHY NOT HERE"), rows, empty="")
