"""Changes of the leader seen through the floating address, on three hosts in network namespaces. Needs root.

    python -m benchmarks.floating_gap [--trials 20] [--how stop|kill|freeze]

Prints p50, p95 and max of the gap in a client's answers.
"""

import argparse
import sys

from llmgw.testing.lab.floating_gap import Gap, How, gap
from llmgw.testing.lab.laboratory import Laboratory, missing
from llmgw.testing.lab.report import share
from llmgw.testing.records import write_record


def main() -> int:
    """Run the trials and print the figures. Fails when a client lost more than the gap."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--how", choices=tuple(How), type=How, action="append", help="all, if not given")
    options = parser.parse_args()
    reason = missing()
    if reason is not None:
        print(f"no laboratory here: {reason}")
        return 2
    lost = 0
    with Laboratory() as lab:
        for how in options.how or tuple(How):
            found = [_trial(lab, how, number) for number in range(1, options.trials + 1)]
            lost += sum(one.interruptions > 1 for one in found)
            _tell(how, found)
    return 1 if lost else 0


def _trial(lab: Laboratory, how: How, number: int) -> Gap:
    lab.settle()
    seen = gap(lab, how)
    print(f"{how} {number}: {seen.gap_s:.2f} s without an answer, {seen.interruptions} interruptions", flush=True)
    return seen


def _tell(how: How, found: list[Gap]) -> None:
    gaps = [one.gap_s for one in found]
    print(f"{how}: gap p50 {share(gaps, 0.5):.2f} s  p95 {share(gaps, 0.95):.2f} s  max {max(gaps):.2f} s", flush=True)
    figures: dict[str, object] = {
        "kind": "floating",
        "how": how.value,
        "gaps": gaps,
        "interruptions": max(one.interruptions for one in found),
        "answered": sum(one.answered for one in found),
        "failed": sum(one.failed for one in found),
    }
    write_record(f"floating-{tuple(How).index(how)}-{how}", figures)


if __name__ == "__main__":
    sys.exit(main())
