"""The report of `make lab-long`: what its parts kept in a folder, as a page of the documentation.

    python -m benchmarks.availability FOLDER PAGE

Parts that did not run are left out.
"""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from llmgw.testing.lab.report import render
from llmgw.testing.records import read_records


def main() -> int:
    """Write the page."""
    folder, page = Path(sys.argv[1]), Path(sys.argv[2])
    records = read_records(folder)
    if not records:
        print(f"{folder} holds no figures: make lab-long", file=sys.stderr)
        return 1
    page.write_text(render(records, machine=machine(), at=datetime.now(UTC)))
    print(f"written: {page}")
    return 0


def machine() -> str:
    """Say in words where this runs."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{cores} shared cores, {memory:.0f} GiB, Linux {os.uname().release.partition('-')[0]}"


if __name__ == "__main__":
    sys.exit(main())
