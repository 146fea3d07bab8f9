"""What 500 clients that send a byte now and then do to the others: p99 with them over p99 without them.

A gateway gets plain requests at a steady rate, in turns with and without 500 connections that never finish theirs.
Latency counts from the moment a request was due, so waiting before it was sent counts too.

    python -m benchmarks.micro.slow_clients
"""

import argparse
import asyncio
import json
import os
import time
from typing import cast

import psutil
import uvloop
from benchmarks.micro.messages import PLAIN_END, request
from benchmarks.micro.processes import gateway, module

RATE, CONNECTIONS = 200, 32
"""Requests a second in all, and how many connections share them."""
_ANSWER_S = 5.0


class _Caller(asyncio.Protocol):
    """One connection: a request, its answer."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Note the end of an answer."""
        if data.endswith(PLAIN_END) and self._answer is not None:
            self._answer.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail what waits."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the gateway closed the connection"))

    async def call(self) -> None:
        """Send a request and wait for its answer. Raises `OSError` and `TimeoutError`."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request(stream=False))
        async with asyncio.timeout(_ANSWER_S):
            await self._answer


async def _steady(port: int, seconds: float) -> list[float]:
    """Give the latencies, in milliseconds, of requests at a steady rate."""
    times: list[float] = []

    async def caller(number: int) -> None:
        loop = asyncio.get_running_loop()
        _, one = await loop.create_connection(_Caller, "127.0.0.1", port)
        await one.call()
        due = begin + number / RATE
        while due < begin + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await one.call()
            times.append((time.monotonic() - due) * 1000)
            due += CONNECTIONS / RATE
        one.transport.close()

    begin = time.monotonic() + 0.5
    async with asyncio.TaskGroup() as tasks:
        for number in range(CONNECTIONS):
            tasks.create_task(caller(number))
    return times


def percentile(values: list[float], share: float) -> float:
    """Give the value that `share` of all values do not exceed, by nearest rank."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def main() -> None:
    """Measure in turns and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="slow clients")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="per turn; below the gateway's 20 s for headers")
    options = parser.parse_args()
    alone: list[float] = []
    beside: list[float] = []
    with module("upstream") as (engine, _), gateway(engine) as (port, pid):
        for _ in range(options.rounds):
            alone += uvloop.run(_steady(port, options.seconds))
            with module("dribble", f"--port={port}", f"--count={options.count}"):
                beside += uvloop.run(_steady(port, options.seconds))
                memory = _memory_mb(pid)
    before, after = percentile(alone, 0.99), percentile(beside, 0.99)
    line = {
        "target": "gateway",
        "what": "p99_ms_beside_slow_clients",
        "value": round(after, 2),
        "without": round(before, 2),
        "ratio": round(after / before, 2),
        "p50_ms": round(percentile(beside, 0.5), 2),
        "p50_ms_without": round(percentile(alone, 0.5), 2),
        "slow_clients": options.count,
        "requests": len(alone) + len(beside),
        "rss_mb": round(memory),
        "load1": round(os.getloadavg()[0], 2),
    }
    print(json.dumps(line), flush=True)


def _memory_mb(root: int) -> float:
    process = psutil.Process(root)
    return float(sum(one.memory_info().rss for one in (process, *process.children(recursive=True))) / 2**20)


if __name__ == "__main__":
    main()
