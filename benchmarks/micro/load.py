"""Closed-loop load, and the CPU a process tree spent on it."""

import asyncio
import os
import time
from pathlib import Path
from typing import cast

import psutil
from benchmarks.micro.messages import CHUNKS, PLAIN_END, STEP_S, STREAM_END, request

MOST_SECONDS = 10.0


class _Client(asyncio.Protocol):
    """One connection that sends a request as soon as the answer to the one before is whole."""

    transport: asyncio.Transport

    def __init__(self, request: bytes, mark: bytes, until: float) -> None:
        self.request, self.mark, self.until = request, mark, until
        self.finished = 0
        self.tail = b""
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Send the next request after a whole answer."""
        self.tail = (self.tail + data)[-len(self.mark) :]
        if self.tail != self.mark:
            return
        self.finished += 1
        self.tail = b""
        if time.monotonic() > self.until:
            self.transport.close()
        else:
            self.transport.write(self.request)

    def connection_lost(self, _error: Exception | None) -> None:
        """End."""
        if not self.done.done():
            self.done.set_result(self.finished)


def cpu_ns(root: int) -> int:
    """Nanoseconds a process and its descendants have been on a CPU, all their threads."""
    pids = [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


async def measure(port: int, root: int, *, what: str, connections: int, seconds: float) -> dict[str, object]:
    """Load `port` and divide the CPU of the tree under `root` by what was finished.

    `what` is `request` (plain, closed loop for `seconds`) or `chunk` (one stream a connection, starts spread out).
    """
    streams = what == "chunk"
    mark = STREAM_END if streams else PLAIN_END
    loop = asyncio.get_running_loop()
    before, start = cpu_ns(root), time.monotonic()
    until = start if streams else start + min(seconds, MOST_SECONDS)
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(
            lambda: _Client(request(stream=streams), mark, until), "127.0.0.1", port
        )
        clients.append(client)
        if streams:
            await asyncio.sleep(STEP_S / connections)
    async with asyncio.timeout(MOST_SECONDS * 3):
        finished = sum(await asyncio.gather(*(client.done for client in clients)))
    wall, used = time.monotonic() - start, cpu_ns(root) - before
    units = finished * CHUNKS if streams else finished
    if not units:
        raise RuntimeError(f"nothing was finished: the process {root} refused all {connections} connections")
    return {
        "what": f"cpu_us_per_{what}",
        "value": round(used / units / 1000, 1),
        "connections": connections,
        "units": units,
        "per_second": round(units / wall),
        "load1": round(os.getloadavg()[0], 2),
    }
