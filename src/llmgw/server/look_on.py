"""A turn of a leader that observes: what agents say is taken in, nothing is planned, no set is made to be ordered."""

import math
from datetime import datetime

from msgspec.structs import replace

from llmgw.core.observing import OBSERVING_SETTING, observed, written
from llmgw.ports import AppendEvent, FleetRows, PutReplica, PutSetting, Write
from llmgw.schema.backup import Observing
from llmgw.schema.event import Event, Severity
from llmgw.schema.replica import ShardPhase
from llmgw.server.fold import fold
from llmgw.server.live import Live
from llmgw.server.registration import registrations
from llmgw.server.turn import Heard, Rules, Turn


def is_lost(rows: FleetRows, live: tuple[Live, ...]) -> bool:
    """True when nodes run engines that somebody ordered, and the store is empty: it must have been lost.

    To order now would stop all of them.
    """
    if rows.models or rows.replicas:
        return False
    generations = {node.id: node.generation for node in rows.nodes}
    return any(
        one.connected
        and one.generation > generations.get(one.node, 0)
        and any(report.phase is not ShardPhase.DEAD for report in one.reports)
        for one in live
    )


def look_on(rows: FleetRows, heard: Heard, rules: Rules, *, lost: bool = False) -> Turn:
    """Give the writes; `lost`: it begins now, since the store was lost.

    Silent nodes are shown as unreachable, and never as lost: nothing may follow from it.
    """
    silence = replace(rules.silence, lost_after_s=math.inf)
    registered = registrations(rows.nodes, heard.live, silence=silence, now=heard.now, hearing=heard.hearing)
    rows = fold(rows, registered)
    writes: list[Write] = [*(_note_loss(heard.now) if lost else ()), *registered]
    connected = frozenset(one.node for one in heard.live if one.connected)
    reports = {report.id: report for one in heard.live if one.connected for report in one.reports}
    for replica in rows.replicas:
        step = observed(replica, reports=reports, connected=connected, policy=rules.policy, now=heard.now)
        if step.replica is not None and step.replica != replica:
            writes.append(PutReplica(replica=step.replica))
        writes.extend(AppendEvent(event=event) for event in step.events)
    return Turn(writes=tuple(writes), sets=(), violations=())


def _note_loss(now: datetime) -> tuple[Write, ...]:
    """Give the writes that begin to observe."""
    message = "the store is empty, and nodes run engines it does not know: nothing is ordered until an operator resumes"
    return (
        PutSetting(name=OBSERVING_SETTING, value=written(Observing(since=now))),
        AppendEvent(event=Event(at=now, kind="store.lost", severity=Severity.ERROR, message=message)),
    )
