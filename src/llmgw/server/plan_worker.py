"""The plan worker's process: learns what changed of the fleet, and plans when asked. It does nothing else.

    python -m llmgw.server.plan_worker

Ends with its standard input, so that it never outlives the control plane that started it.
"""

import gc
import sys

from llmgw.core.offer import Offers
from llmgw.core.planner import plan
from llmgw.server.plan_messages import Ask, Parts, pack, read

GARBAGE = 200_000
"""Values made before garbage is looked for: a plan makes many and leaves none in circles."""


def main() -> None:
    """Answer until the control plane is gone."""
    gc.set_threshold(GARBAGE)
    parts, offers = Parts(), Offers()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while (message := read(stdin)) is not None:
        if not isinstance(message, Ask):
            parts.take_in(message)
            continue
        stdout.write(pack(plan(parts.snapshot(message), offers=offers)))
        stdout.flush()


if __name__ == "__main__":
    main()
