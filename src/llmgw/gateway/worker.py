"""A worker: takes connections on the master's socket and answers them. Talks to clients, engines and the master only.

Started by the master as `python -m llmgw.gateway.worker`. When the master dies, the worker closes the listening socket
at once, lets open answers end and ends too.
"""

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import Sequence

import uvloop

from llmgw.gateway.wiring import Worker, build_worker
from llmgw.gateway.worker_link import Link, MasterMessage, Stop, WorkerReady, WorkerStart
from llmgw.link.renewed import follow_renewals
from llmgw.telemetry import log as logs

REPORT_S = 1.0

log = logs.get(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker on the file descriptors it inherited."""
    parser = argparse.ArgumentParser(
        prog="llmgw gateway-worker", description="A gateway's worker, started by its master."
    )
    parser.add_argument("--listen-fd", type=int, required=True)
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--gateway", required=True, help="name of the gateway, for people who look at processes")
    options = parser.parse_args(argv)
    listener = socket.socket(fileno=options.listen_fd)
    link_end = socket.socket(fileno=options.link_fd)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(listener, link_end))


async def _serve(listener: socket.socket, link_end: socket.socket) -> int:
    link: Link[MasterMessage] = await Link.open(link_end, MasterMessage)
    start = await link.receive()
    if not isinstance(start, WorkerStart):
        return 1
    config = start.config
    logs.configure(level=config.log_level, style=config.log_format, process="gateway")
    worker = build_worker(start, link.send)
    stop = asyncio.Event()
    _on_signals(stop)
    _spare_the_collector()
    tls = worker.tls
    await worker.server.serve(listener, None if tls is None else tls.clients)
    link.send(WorkerReady(pid=os.getpid()))
    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(_listen(link, worker, stop))
        reporting = tasks.create_task(_report(link, worker))
        renewing = tasks.create_task(follow_renewals(() if tls is None else tls.certificates))
        await stop.wait()
        worker.server.stop_accepting()
        await worker.server.drain(config.drain_s)
        listening.cancel()
        reporting.cancel()
        renewing.cancel()
    link.send(worker.report())
    worker.close()
    link.close()
    return 0


async def _listen(link: Link[MasterMessage], worker: Worker, stop: asyncio.Event) -> None:
    while (message := await link.receive()) is not None:
        if isinstance(message, Stop):
            stop.set()
        else:
            worker.take(message)
    if not stop.is_set():
        log.warning("master.lost", note="the listening socket is closed, open answers may end")
    stop.set()


async def _report(link: Link[MasterMessage], worker: Worker) -> None:
    while True:
        await asyncio.sleep(REPORT_S)
        link.send(worker.report())


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    # Ctrl-C reaches the whole group of a terminal: the master decides what it means.
    loop.add_signal_handler(signal.SIGINT, lambda: None)


def _spare_the_collector() -> None:
    """Keep the collector from walking what lives as long as the process, over and over."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        raise SystemExit(main())
