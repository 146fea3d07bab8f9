"""CPU of the relay alone: microseconds per request and per streamed chunk, one JSON line a measurement.

Three processes on loopback: a minimal upstream, the relay (server, pool and pipe; no routing, no keys) and this load.
Only the relay's CPU counts, from its scheduler statistics (nanoseconds). Each measurement takes `--seconds` at most 10.

    python benchmarks/relay_micro.py                 # all measurements
    python benchmarks/relay_micro.py --profile       # the relay's functions by own time as well
"""

import argparse
import asyncio
import contextlib
import cProfile
import io
import json
import os
import pstats
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import uvloop

from llmgw.relay.exchange import Exchange
from llmgw.relay.forward import pipe
from llmgw.relay.limits import Limits
from llmgw.relay.server import HttpServer
from llmgw.relay.upstream import Endpoint, UpstreamPool

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "word " * 400}]}).encode()
REQUEST = (
    b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: OpenAI/Python 2.1.0\r\nAccept: application/json\r\n"
    b"Accept-Encoding: gzip, deflate\r\nContent-Type: application/json\r\nAuthorization: Bearer lk_00000000_0000\r\n"
    b"X-Stainless-Lang: python\r\nConnection: keep-alive\r\nContent-Length: %d\r\n\r\n%b"
)
PLAIN = REQUEST % (b"/plain", len(BODY), BODY)
STREAM = REQUEST % (b"/stream", len(BODY), BODY)
ANSWER = b'{"id":"x","object":"chat.completion","choices":[{"message":{"content":"' + b"w" * 300 + b'"}}]}'
PLAIN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: x\r\nContent-Length: %d\r\n\r\n%b" % (
    len(ANSWER),
    ANSWER,
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"delta":{"content":"' + b"w" * 90 + b'"}}]}\n\n'
CHUNK = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
CHUNKS, STEP_S = 200, 0.02


class Upstream(asyncio.Protocol):
    """Answers without parsing more than it must."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport
        self.data = b""

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self.data += data
        end = self.data.find(b"\r\n\r\n")
        if end < 0 or len(self.data) < end + 4 + len(BODY):
            return
        streamed = self.data.startswith(b"POST /stream")
        self.data = b""
        if streamed:
            self.transport.write(STREAM_HEAD)
            self.step(CHUNKS)
        else:
            self.transport.write(PLAIN_ANSWER)

    def step(self, left: int) -> None:
        """Send one chunk each 20 ms."""
        if left == 0:
            self.transport.write(b"0\r\n\r\n")
            return
        self.transport.write(CHUNK)
        asyncio.get_running_loop().call_later(STEP_S, self.step, left - 1)


class Load(asyncio.Protocol):
    """One client connection in a closed loop."""

    def __init__(self, request: bytes, mark: bytes, until: float) -> None:
        self.request, self.mark, self.until = request, mark, until
        self.finished = 0
        self.tail = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self.transport = transport
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


async def serve_upstream() -> None:
    """Run the upstream until killed."""
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


async def serve_relay(upstream: int) -> None:
    """Run the relay until terminated."""
    pool, endpoint = UpstreamPool(), Endpoint("127.0.0.1", upstream)

    async def handle(exchange: Exchange) -> None:
        request = exchange.request
        response = await pool.request(
            endpoint,
            method="POST",
            path=request.path,
            headers=request.headers,
            body=request.body,
            first_byte_timeout_s=30,
        )
        await pipe(response, exchange, headers=response.headers, idle_timeout_s=30)

    server = HttpServer(handle, Limits(), lambda _status, code, _message: code.encode())
    sock = socket.create_server(("127.0.0.1", 0))
    await server.serve(sock)
    print(sock.getsockname()[1], flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


def profiled(upstream: int) -> None:
    """Run the relay under the profiler; its figures are for comparing functions only."""
    profile = cProfile.Profile()
    profile.runcall(uvloop.run, serve_relay(upstream))
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(28)
    sys.stderr.write(text.getvalue())


def cpu_ns(pid: int) -> int:
    """Nanoseconds on a CPU, all threads."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir())


async def measure(port: int, relay: int, name: str, connections: int, seconds: float) -> dict[str, object]:
    """Run one load and divide the relay's CPU by what was finished."""
    request, mark = (STREAM, b"0\r\n\r\n") if name == "chunk" else (PLAIN, ANSWER[-16:])
    loop = asyncio.get_running_loop()
    before, start = cpu_ns(relay), time.monotonic()
    until = start if name == "chunk" else start + seconds
    loads = []
    for index in range(connections):
        _, load = await loop.create_connection(lambda: Load(request, mark, until), "127.0.0.1", port)
        loads.append(load)
        if name == "chunk":
            await asyncio.sleep(STEP_S / connections if index else 0)
    finished = sum(await asyncio.gather(*(load.done for load in loads)))
    wall, used = time.monotonic() - start, cpu_ns(relay) - before
    units = finished * CHUNKS if name == "chunk" else finished
    return {
        "what": f"cpu_us_per_{name}",
        "value": round(used / units / 1000, 1),
        "connections": connections,
        "units": units,
        "per_second": round(units / wall),
        "load1": round(os.getloadavg()[0], 2),
    }


def spawn(*arguments: str) -> tuple[subprocess.Popen[str], int]:
    """Start another role of this file; it prints its port."""
    process = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None  # noqa: S101 -- for the type checker
    return process, int(process.stdout.readline())


def main() -> None:
    """Parse arguments and run a role."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", choices=("load", "upstream", "relay"), default="load")
    parser.add_argument("--upstream", type=int)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", choices=("request", "chunk"))
    arguments = parser.parse_args()
    if arguments.role == "upstream":
        uvloop.run(serve_upstream())
        return
    if arguments.role == "relay":
        if arguments.profile:
            profiled(arguments.upstream)
        else:
            uvloop.run(serve_relay(arguments.upstream))
        return
    with contextlib.ExitStack() as stack:
        upstream, upstream_port = spawn("--role", "upstream")
        stack.callback(upstream.kill)
        flags = ["--profile"] if arguments.profile else []
        relay, port = spawn("--role", "relay", "--upstream", str(upstream_port), *flags)
        stack.callback(relay.wait)
        stack.callback(relay.terminate)
        for name, connections in (("request", 1), ("request", 16), ("chunk", 64)):
            if arguments.only in (None, name):
                seconds = min(arguments.seconds, 10)
                print(json.dumps(uvloop.run(measure(port, relay.pid, name, connections, seconds))), flush=True)


if __name__ == "__main__":
    main()
