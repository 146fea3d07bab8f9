"""`ctl status`: the whole fleet in one answer."""

import click

from llmgw.ctl.session import Session, pass_session
from llmgw.schema.store import StoreMember, StoreRole
from llmgw.schema.summary import Summary


@click.command()
@pass_session
def status(session: Session) -> None:
    """Say who leads, what runs, and what is wrong."""
    session.show(session.api.get("/api/v1/summary"), Summary, text)


def text(summary: Summary) -> str:
    """Give the status as lines; problems come last, where the eye stays."""
    lines = [
        _leader(summary),
        *_others(summary),
        *_floating(summary),
        *_store(summary),
        _nodes(summary),
        *_devices(summary),
        *_fabrics(summary),
        _models(summary),
        _replicas(summary),
    ]
    return "\n".join([*lines, *_problems(summary)])


def _leader(summary: Summary) -> str:
    if summary.leader is None:
        return f"control plane  nobody leads: nothing can be changed (llmgw {summary.version})"
    return f"control plane  {summary.leader} leads, epoch {summary.epoch} (llmgw {summary.version})"


def _others(summary: Summary) -> list[str]:
    """Name all control planes, where there are several: those that do not answer are what one looks for."""
    if summary.control_planes is None:
        return []
    members = summary.control_planes.members
    width = max(len(member.name) for member in members)
    return [
        f"               {member.name:<{width}}  {member.state}, {member.address}{' (this one)' if member.this else ''}"
        for member in members
    ]


def _floating(summary: Summary) -> list[str]:
    planes = summary.control_planes
    if planes is None or planes.floating is None:
        return []
    return [f"address        {planes.floating} {planes.floating_state or 'not looked at yet'}"]


def _store(summary: Summary) -> list[str]:
    width = max((len(member.name) for member in summary.store), default=0)
    return [
        f"store          {member.name:<{width}}  {member.role}, {member.state}{_lag(member)}, {member.host}"
        for member in summary.store
    ]


def _lag(member: StoreMember) -> str:
    if member.role is StoreRole.LEADER:
        return ""
    return ", lag unknown" if member.lag < 0 else f", {member.lag} bytes behind"


def _nodes(summary: Summary) -> str:
    nodes = summary.nodes
    others = [
        f"{count} {word}"
        for count, word in (
            (nodes.cordoned, "cordoned"),
            (nodes.draining, "draining"),
            (nodes.unreachable, "unreachable"),
        )
        if count
    ]
    return f"nodes          {', '.join([f'{nodes.ready} of {nodes.total} ready', *others])}"


def _devices(summary: Summary) -> list[str]:
    return [
        f"devices        {row.device_class}: {row.total - row.used - row.unhealthy} of {row.total} free"
        + (f", {row.unhealthy} unhealthy" if row.unhealthy else "")
        for row in summary.gpus
    ]


def _fabrics(summary: Summary) -> list[str]:
    return [
        f"fabric         {row.fabric}: {row.nodes} nodes, {row.nodes_with_weights} with weights, "
        f"{row.models_present} models present, largest free block {row.largest_free_block}"
        for row in summary.fabrics
    ]


def _models(summary: Summary) -> str:
    models = summary.models
    return f"models         {models.satisfied} of {models.total} satisfied" + (
        f", {models.short} short" if models.short else ""
    )


def _replicas(summary: Summary) -> str:
    replicas = summary.replicas
    counts = ((replicas.starting, "starting"), (replicas.draining, "draining"), (replicas.failed, "failed"))
    others = [f"{count} {word}" for count, word in counts if count]
    return f"replicas       {', '.join([f'{replicas.ready} ready', *others])}"


def _problems(summary: Summary) -> list[str]:
    lines = [] if summary.store_error is None else [f"store          away: {summary.store_error}"]
    if summary.store_problem is not None:
        lines.append(f"store          {summary.store_problem}")
    lines += [f"store          {member.name}: {member.problem}" for member in summary.store if member.problem]
    if summary.control_planes is not None and summary.control_planes.floating_problem is not None:
        lines.append(f"address        {summary.control_planes.floating_problem}")
    lines += [f"alarm          {alarm.text}" for alarm in summary.alarms]
    lines += [
        f"judge          {judge.problem}" + (f": {judge.remedy}" if judge.remedy else "") for judge in summary.judges
    ]
    lines += [f"unplaceable    {name}: llmgw ctl model explain {name}" for name in summary.unplaceable]
    lines += [f"parked         {row.model} after {row.failures} failures: {row.reason}" for row in summary.parked]
    lines += [
        f"idle           {row.id} ({row.model}) for {row.idle_seconds} s, {row.gpus} GPUs"
        for row in summary.idle_replicas
    ]
    return lines
