"""CPU of a whole gateway: microseconds per plain request and per streamed chunk, one JSON line a measurement.

Upstream, gateway (master and one worker; keys, permits, metrics and request log on) and load are processes of their own
on loopback; only the gateway's CPU counts, from scheduler statistics.

    python -m benchmarks.micro.gateway
    python -m benchmarks.micro.gateway --only chunk --seconds 3
"""

import argparse
import json

import uvloop
from benchmarks.micro.load import measure
from benchmarks.micro.processes import gateway, module

LOADS = (("request", 1), ("request", 16), ("chunk", 64))


def main() -> None:
    """Measure each load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3, help="per measurement of requests; at most 10")
    parser.add_argument("--only", choices=("request", "chunk"))
    options = parser.parse_args()
    with module("upstream") as (engine, _), gateway(engine) as (port, pid):
        for what, connections in LOADS:
            if options.only in (None, what):
                figures = uvloop.run(measure(port, pid, what=what, connections=connections, seconds=options.seconds))
                print(json.dumps({"target": "gateway"} | figures), flush=True)


if __name__ == "__main__":
    main()
