"""How long one plan takes, and its check: 1,000 models on 200, 2,000 and 10,000 nodes. Prints one JSON line a case.

    python benchmarks/planner_scale.py [--nodes 200 2000 10000] [--models 1000] [--case equal ...] [--runs 3]

Must, seconds a plan: 0.05 / 0.5 / 2.5; aim: 0.01 / 0.06 / 0.3. Times are this process's CPU seconds, the best of all
runs: other load on the machine then disturbs them least. `machine_s` is that of a fixed piece of work, 0.025 s on a
machine that does nothing else: divide by it to compare machines.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable

import scale_fleet as fleets

from llmgw.core.plan_lint import lint
from llmgw.core.planner import plan
from llmgw.core.snapshot import Snapshot
from llmgw.server.plan_worker import GARBAGE
from llmgw.testing.factories import carried_out

CASES: dict[str, Callable[[int, int], Snapshot]] = {
    "equal": lambda nodes, models: fleets.snapshot(fleets.equal_nodes(nodes), fleets.models(models)),
    "kinds": lambda nodes, models: fleets.snapshot(fleets.kinds_of_nodes(nodes), fleets.models(models)),
    "uneven": lambda nodes, models: fleets.snapshot(fleets.uneven_nodes(nodes), fleets.models(models)),
    "local-weights": lambda nodes, models: fleets.snapshot(fleets.local_weights(nodes), fleets.models(models)),
    "filled": lambda nodes, models: fleets.snapshot(
        fleets.equal_nodes(nodes), fleets.models(models, replicas=max(1, nodes // 200))
    ),
    "unchanged": lambda nodes, models: _at_rest(
        fleets.snapshot(fleets.equal_nodes(nodes), fleets.models(models, replicas=max(1, nodes // 200)))
    ),
    "hopeless": lambda nodes, models: fleets.snapshot(fleets.equal_nodes(nodes), fleets.hopeless_models(models)),
    "hopeless-uneven": lambda nodes, models: fleets.snapshot(
        fleets.uneven_nodes(nodes), fleets.hopeless_models(models)
    ),
}

CASES["one-more"] = lambda nodes, models: _one_more(nodes, models)  # noqa: PLW0108 - defined below, where it reads best


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[200, 2_000, 10_000])
    parser.add_argument("--models", type=int, default=1_000)
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    gc.set_threshold(GARBAGE)  # as the plan worker does
    for nodes in options.nodes:
        for case in options.case:
            print(json.dumps(_measure(case, nodes, options.models, options.runs)), flush=True)


def _measure(case: str, nodes: int, models: int, runs: int) -> dict[str, object]:
    snapshot = CASES[case](nodes, models)
    made = plan(snapshot)
    problems = lint(snapshot, made)
    if problems:
        raise SystemExit(f"{case} on {nodes} nodes: the plan is not sound: {problems[:3]}")
    return {
        "case": case,
        "nodes": nodes,
        "models": models,
        "replicas": len(snapshot.replicas),
        "placements": len(made.placements),
        "shortfalls": len(made.shortfalls),
        "plan_s": round(_best(lambda: plan(snapshot), runs), 4),
        "lint_s": round(_best(lambda: lint(snapshot, made), runs), 4),
        "machine_s": round(_best(fleets.fixed_work, runs), 4),
    }


def _best(act: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        gc.collect()
        since = time.process_time()
        act()
        times.append(time.process_time() - since)
    return min(times)


def _at_rest(snapshot: Snapshot) -> Snapshot:
    return carried_out(snapshot, plan(snapshot))


def _one_more(nodes: int, models: int) -> Snapshot:
    """A fleet at rest, and one model more."""
    before = CASES["unchanged"](nodes, models)
    newcomer = fleets.models(models + 1)[-1]
    return fleets.make_snapshot([seen.node for seen in before.nodes], [*before.models, newcomer], before.replicas)


if __name__ == "__main__":
    main()
