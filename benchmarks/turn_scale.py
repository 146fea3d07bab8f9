"""How long one turn of the reconciler holds the control plane's loop, part by part, for a fleet at rest.

    python benchmarks/turn_scale.py [--nodes 200 2000 10000] [--models 1000] [--runs 3]

Prints one JSON line a size: CPU seconds, the best of all runs. Must: no callback on the loop takes over 0.05 s.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable

import msgspec
import scale_fleet as fleets

from llmgw.core.parking import BackoffPolicy
from llmgw.core.planner import plan
from llmgw.core.snapshot import Snapshot
from llmgw.ports import FleetRows
from llmgw.schema.replica import Replica, ReplicaState
from llmgw.server.execute import Names
from llmgw.server.fold import fold, ordered
from llmgw.server.live import Live
from llmgw.server.observe import Observer, Resolved
from llmgw.server.plan_ahead import NO_PLAN
from llmgw.server.plan_news import Told
from llmgw.server.recall import Recall
from llmgw.server.registration import Silence
from llmgw.server.turn import Heard, Rules, decide
from llmgw.testing.factories import NOW, carried_out, make_report


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[200, 2_000, 10_000])
    parser.add_argument("--models", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    for nodes in options.nodes:
        print(json.dumps(_measure(nodes, options.models, options.runs)), flush=True)


def _measure(nodes: int, models: int, runs: int) -> dict[str, object]:
    snapshot = fleets.snapshot(fleets.equal_nodes(nodes), fleets.models(models, replicas=max(1, nodes // 200)))
    snapshot = carried_out(snapshot, plan(snapshot))
    claims = {seen.model.name: seen.claim for seen in snapshot.models}
    observer = Observer(lambda model, _weights, _cores: Resolved(profile=model.profile, claim=claims[model.name]))
    rules = Rules(
        planner=lambda _: NO_PLAN,
        policy=BackoffPolicy(base_s=2.0, max_s=60.0, park_after=5),
        silence=Silence(unreachable_after_s=15.0, lost_after_s=300.0, leading_since=0.0),
        names=Names(replica=lambda: "r", engine_key=lambda: "k"),
    )
    rows, heard, recall = *_rows(snapshot), Recall()
    for _ in range(3):
        rows = fold(rows, decide(rows, heard, rules, observer, recall).writes)
        heard = msgspec.structs.replace(heard, live=_obeyed(heard.live, rows))
    turn = decide(rows, heard, rules, observer, recall)
    seen = observer.snapshot(rows, reports={one.node: one.reports for one in heard.live}, now=heard.now)
    told = Told()
    list(told.news(seen))
    return {
        "nodes": nodes,
        "models": models,
        "replicas": len(rows.replicas),
        "writes": len(turn.writes),
        "turn_s": _best(lambda: decide(rows, heard, rules, observer, recall), runs),
        "snapshot_s": _best(
            lambda: observer.snapshot(rows, reports={one.node: one.reports for one in heard.live}, now=heard.now), runs
        ),
        "differs_s": _best(lambda: told.differs(seen), runs),
        "machine_s": _best(fleets.fixed_work, runs),
    }


def _rows(snapshot: Snapshot) -> tuple[FleetRows, Heard]:
    replicas = tuple(_ready(replica) for replica in snapshot.replicas)
    reports: dict[str, list[object]] = {seen.node.id: [] for seen in snapshot.nodes}
    for replica in replicas:
        for shard in replica.shards:
            reports[shard.allocation.node].append(make_report(shard, model=replica.model))
    rows = FleetRows(
        nodes=tuple(seen.node for seen in snapshot.nodes),
        models=tuple(seen.model for seen in snapshot.models),
        statuses=tuple(seen.status for seen in snapshot.models),
        replicas=replicas,
    )
    live = tuple(
        Live(
            node=node.id,
            stream=1,
            facts=node.facts,
            reports=tuple(reports[node.id]),
            generation=0,
            connected=True,
            heard_at=1000.0,
        )
        for node in rows.nodes
    )
    return ordered(rows), Heard(live=live, now=NOW, hearing=1000.0)


def _obeyed(live: tuple[Live, ...], rows: FleetRows) -> tuple[Live, ...]:
    generations = {node.id: node.generation for node in rows.nodes}
    return tuple(msgspec.structs.replace(one, generation=generations[one.node]) for one in live)


def _ready(replica: Replica) -> Replica:
    return msgspec.structs.replace(replica, state=ReplicaState.READY, ready_at=NOW, proven=True)


def _best(act: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        gc.collect()
        since = time.process_time()
        act()
        times.append(time.process_time() - since)
    return round(min(times), 4)


if __name__ == "__main__":
    main()
