"""A turn of a leader that observes: what agents say is taken in, nothing is planned, no set is made to be ordered."""

import math

from msgspec.structs import replace

from llmgw.core.observing import observed
from llmgw.ports import AppendEvent, FleetRows, PutReplica, Write
from llmgw.server.fold import fold
from llmgw.server.registration import registrations
from llmgw.server.turn import Heard, Rules, Turn


def look_on(rows: FleetRows, heard: Heard, rules: Rules) -> Turn:
    """Give the writes. Silent nodes are shown as unreachable, and never as lost: nothing may follow from it."""
    silence = replace(rules.silence, lost_after_s=math.inf)
    writes: list[Write] = list(
        registrations(rows.nodes, heard.live, silence=silence, now=heard.now, hearing=heard.hearing)
    )
    rows = fold(rows, writes)
    connected = frozenset(one.node for one in heard.live if one.connected)
    reports = {report.id: report for one in heard.live if one.connected for report in one.reports}
    for replica in rows.replicas:
        step = observed(replica, reports=reports, connected=connected, policy=rules.policy, now=heard.now)
        if step.replica is not None and step.replica != replica:
            writes.append(PutReplica(replica=step.replica))
        writes.extend(AppendEvent(event=event) for event in step.events)
    return Turn(writes=tuple(writes), sets=(), violations=())
