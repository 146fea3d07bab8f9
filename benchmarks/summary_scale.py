"""How long the summary of a fleet takes: 200, 2,000 and 10,000 nodes, 1,000 models. Prints one JSON line a case.

    python benchmarks/summary_scale.py [--nodes 200 2000 10000] [--models 1000] [--replicas 1 50] [--runs 5]

Must, seconds: 0.005 for 200 nodes, 0.15 for 10,000; aim: 0.002 and 0.05. CPU seconds of this process, the best of all
runs. `replicas` is per model; 50 on 10,000 nodes fill the fleet.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable

import msgspec
import scale_fleet as fleets

from llmgw.core.planner import plan
from llmgw.core.snapshot import Snapshot
from llmgw.core.summary import summarize
from llmgw.schema.replica import ReplicaState
from llmgw.testing.factories import NOW, carried_out


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[200, 2_000, 10_000])
    parser.add_argument("--models", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    for nodes in options.nodes:
        for replicas in sorted({1, max(1, nodes // 200)}):
            print(json.dumps(_measure(nodes, options.models, replicas, options.runs)), flush=True)


def _measure(nodes: int, models: int, replicas: int, runs: int) -> dict[str, object]:
    snapshot = _ready(fleets.snapshot(fleets.kinds_of_nodes(nodes), fleets.models(models, replicas=replicas)))
    found = summarize(snapshot, version="1", leader="here", epoch=1)
    return {
        "nodes": nodes,
        "models": models,
        "replicas": len(snapshot.replicas),
        "idle": len(found.idle_replicas),
        "bytes": len(msgspec.json.encode(found)),
        "summary_s": _best(lambda: summarize(snapshot, version="1", leader="here", epoch=1), runs),
        "machine_s": _best(fleets.fixed_work, runs),
    }


def _ready(snapshot: Snapshot) -> Snapshot:
    """Everything that fits runs; a tenth of it idles."""
    placed = carried_out(snapshot, plan(snapshot)).replicas
    replicas = tuple(msgspec.structs.replace(r, state=ReplicaState.READY, ready_at=NOW) for r in placed)
    idle_s = {replica.id: 3600.0 for replica in replicas[::10]}
    later = NOW.replace(hour=NOW.hour + 2)
    return msgspec.structs.replace(snapshot, replicas=replicas, idle_s=idle_s, now=later)


def _best(act: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        gc.collect()
        since = time.process_time()
        act()
        times.append(time.process_time() - since)
    return round(min(times), 5)


if __name__ == "__main__":
    main()
