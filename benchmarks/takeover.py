"""Takeovers with real processes: control planes on one PostgreSQL, a gateway beside each, many fake agents.

    python -m benchmarks.takeover [--agents 200] [--trials 20] [--planes 2] [--how stop|kill|freeze] [--tls]

Prints p50, p95 and max of: until another one leads, until it has all agents, until the old one holds no stream.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

from llmgw.testing.control_planes import ControlPlanes, Takeover
from llmgw.testing.lab.report import share
from llmgw.testing.postgres import PostgresServer, installed
from llmgw.testing.records import write_record

_HOW = {"stop": signal.SIGTERM, "kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


async def main() -> int:
    """Run the trials and print the figures. Fails when a request through a gateway did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--planes", type=int, default=2)
    parser.add_argument("--how", choices=tuple(_HOW), default="stop")
    parser.add_argument("--tls", action="store_true", help="mutual TLS on all agents' streams, and the API")
    options = parser.parse_args()
    binaries = installed()
    if binaries is None:
        print("PostgreSQL is not installed: apt-get install postgresql")
        return 2
    with PostgresServer(binaries) as postgres, tempfile.TemporaryDirectory(prefix="llmgw-takeover-") as folder:
        planes = ControlPlanes(Path(folder), postgres, count=options.planes, agents=options.agents, tls=options.tls)
        async with planes:
            return await _run(planes, options)


async def _run(planes: ControlPlanes, options: argparse.Namespace) -> int:
    how, trials, agents = options.how, options.trials, options.agents
    found: list[Takeover] = []
    starts = planes.fakes.starts()
    async with planes.traffic(planes.gateways, clients=1) as traffic:
        for trial in range(1, trials + 1):
            leader = await planes.all_there()
            one = await planes.takeover(leader, _HOW[how])
            found.append(one)
            print(
                f"{how} {trial}: leads after {one.led_s:.2f} s, all agents after {one.attached_s:.2f} s, "
                f"old one without streams after {one.let_go_s:.2f} s",
                flush=True,
            )
            if how == "freeze":
                os.kill(leader.pid, signal.SIGCONT)
            else:
                await leader.restart()
    secured = ", mutual TLS" if options.tls else ""
    print(f"\n{how}, {agents} agents{secured}, {trials} trials, {len(planes.servers)} control planes")
    series = {
        "another leads": [one.led_s for one in found],
        "all agents attached": [one.attached_s for one in found],
        "old one holds no stream": [one.let_go_s for one in found],
    }
    for name, values in series.items():
        print(f"{name:<24} p50 {share(values, 0.5):.2f} s  p95 {share(values, 0.95):.2f} s  max {max(values):.2f} s")
    print(f"requests through the gateways: {traffic.answered} answered, {len(traffic.failures)} failed")
    for failure in traffic.failures[:5]:
        print(f"  {failure}")
    started = planes.fakes.starts() - starts
    print(f"engines started during the trials: {started}")
    figures: dict[str, object] = {
        "kind": "takeover",
        "how": how,
        "agents": agents,
        "tls": options.tls,
        "series": series,
        "answered": traffic.answered,
        "failed": len(traffic.failures),
        "engine_starts": started,
    }
    name = f"takeover-{agents:05}-{tuple(_HOW).index(how)}-{how}"
    write_record(f"{name}-tls" if options.tls else name, figures)
    return 1 if traffic.failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
