"""CPU of the relay alone: microseconds per request and per streamed chunk, one JSON line a measurement.

As `benchmarks.micro.gateway`, with nothing but server, pool and pipe between load and upstream: no routing, no keys.

    python -m benchmarks.micro.relay                 # all measurements
    python -m benchmarks.micro.relay --profile       # the relay's functions by own time as well, on standard error
"""

import argparse
import asyncio
import cProfile
import io
import json
import pstats
import signal
import socket
import sys

import uvloop
from benchmarks.micro.gateway import LOADS
from benchmarks.micro.load import measure
from benchmarks.micro.processes import module

from llmgw.relay.exchange import Exchange
from llmgw.relay.forward import pipe
from llmgw.relay.limits import Limits
from llmgw.relay.server import HttpServer
from llmgw.relay.upstream import Endpoint, UpstreamPool

_SHOWN = 28
_TIMEOUT_S = 30.0


async def _serve(upstream: int) -> None:
    """Run the relay until terminated; prints its port."""
    pool, endpoint = UpstreamPool(), Endpoint("127.0.0.1", upstream)

    async def handle(exchange: Exchange) -> None:
        request = exchange.request
        response = await pool.request(
            endpoint,
            method="POST",
            path=request.path,
            headers=request.headers,
            body=request.body,
            first_byte_timeout_s=_TIMEOUT_S,
        )
        await pipe(response, exchange, headers=response.headers, idle_timeout_s=_TIMEOUT_S)

    server = HttpServer(handle, Limits(), lambda _status, code, _message: code.encode())
    sock = socket.create_server(("127.0.0.1", 0))
    await server.serve(sock)
    print(sock.getsockname()[1], flush=True)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


def _profiled(upstream: int) -> None:
    """Run the relay under the profiler; its figures are for comparing functions only."""
    profile = cProfile.Profile()
    profile.runcall(uvloop.run, _serve(upstream))
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(_SHOWN)
    sys.stderr.write(text.getvalue())


def main() -> None:
    """Measure each load, or be the relay (`--upstream`)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=3, help="per measurement of requests; at most 10")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", choices=("request", "chunk"))
    options = parser.parse_args()
    if options.upstream is not None:
        (_profiled if options.profile else _run)(options.upstream)
        return
    flags = ["--profile"] if options.profile else []
    with module("upstream") as (upstream, _), module("relay", f"--upstream={upstream}", *flags) as (port, pid):
        for what, connections in LOADS:
            if options.only in (None, what):
                figures = uvloop.run(measure(port, pid, what=what, connections=connections, seconds=options.seconds))
                print(json.dumps({"target": "relay"} | figures), flush=True)


def _run(upstream: int) -> None:
    uvloop.run(_serve(upstream))


if __name__ == "__main__":
    main()
