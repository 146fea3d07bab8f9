"""The control plane's process: start, run, stop in the right order."""

import asyncio
import contextlib
import math
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import uvicorn
import uvloop
from starlette.types import ASGIApp

from llmgw.config import disk
from llmgw.config.data_dir import make_data_dir
from llmgw.config.open_files import raise_open_files
from llmgw.config.server import ServerConfig
from llmgw.server.http.protocol import GuardedProtocol
from llmgw.server.listen import bind_tcp, bind_unix
from llmgw.server.wiring import ControlPlane, build, gateway_socket
from llmgw.telemetry import log
from llmgw.telemetry.clock import SystemClock

ROOM_S = 1.0
"""Seconds between two looks for room."""

_log = log.get(__name__)


def run(config: ServerConfig) -> int:
    """Run a control plane until it is told to stop. Raises `LlmgwError` when it cannot start."""
    log.configure(level=config.log_level, style=config.log_format, process="server")
    raise_open_files()
    _await_room(config, make_data_dir(config.data_dir))
    with contextlib.ExitStack() as stack:
        # Bound before anything runs: a port in use must leave no trace.
        sockets = _Sockets(
            api=stack.enter_context(bind_tcp(config.api_listen, field="api_listen")),
            agents=stack.enter_context(bind_tcp(config.agent_listen, field="agent_listen")),
            gateways=stack.enter_context(bind_unix(gateway_socket(config), field="gateway_socket")),
            far_gateways=None
            if config.gateway_listen is None
            else stack.enter_context(bind_tcp(config.gateway_listen, field="gateway_listen")),
        )
        try:
            uvloop.run(_serve(config, sockets))
        finally:
            gateway_socket(config).unlink(missing_ok=True)
    return 0


def _await_room(config: ServerConfig, folder: Path) -> None:
    """Wait while SQLite could not be opened for want of room: to end would be to be started again and again.

    Who asks meanwhile finds nobody listening. SIGTERM ends the wait, and the process.
    """
    if config.store_url is not None or not disk.is_full(folder):
        return
    _log.error("server.disk_full", folder=str(folder), note="the store cannot be opened: waiting for room")
    while disk.is_full(folder):
        time.sleep(ROOM_S)
    _log.info("server.has_room", folder=str(folder))


class _Sockets(NamedTuple):
    api: socket.socket
    agents: socket.socket
    gateways: socket.socket
    far_gateways: socket.socket | None


async def _serve(config: ServerConfig, sockets: _Sockets) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    clock = SystemClock()
    plane = build(config, clock)
    try:
        await plane.security.open(plane.store)
        plane.peers.tls = plane.security.dialling()
        async with asyncio.TaskGroup() as group:
            http = _Http(plane.app, grace_s=config.stop_grace_s, tls=plane.security.api())
            serving = group.create_task(http.serve(sockets=[sockets.api]))
            await plane.listener.start(sockets.agents)
            await plane.hub.start(sockets.gateways)
            gate = plane.security.gateways()
            if sockets.far_gateways is not None and gate is not None:
                await plane.hub.start_tls(sockets.far_gateways, gate)
            others = (
                group.create_task(plane.leadership.run()),
                group.create_task(plane.hub.run()),
                group.create_task(plane.members.run()),
                group.create_task(plane.standby.relay()),
                group.create_task(plane.handing_over.run()),
                group.create_task(plane.metrics.measure_lag(clock)),
                group.create_task(plane.hearing.run()),
                group.create_task(plane.history.run()),
                group.create_task(plane.surroundings.run()),
                group.create_task(plane.security.run()),
            )
            plane.lease.start()
            _log.info("server.started", api=config.api_listen, agents=config.agent_listen)
            await stop.wait()
            _log.info("server.stopping", grace_s=config.stop_grace_s)
            await _let_go(plane)
            # It stands by from here on: requests that run, and gateways, have its copy of the fleet until they end.
            http.should_exit = True
            await serving
            for task in others:
                task.cancel()
    finally:
        await _let_go(plane)
        await plane.hub.stop()
        await plane.peers.close()
        await plane.store.close()
        _log.info("server.stopped")


async def _let_go(plane: ControlPlane) -> None:
    """Let agents go, then the lease: whoever leads next should find them looking for a leader. Twice does no harm.

    Nothing here waits for a turn of the reconciler: a write of its that is under way is done before the release, since
    it holds the lease row, and any later one is refused.
    """
    plane.lease.stop()
    plane.agents.close("this control plane stops")
    plane.leadership.wake()
    await asyncio.gather(plane.listener.stop(), asyncio.to_thread(plane.lease.release_and_stop))


class _Http(uvicorn.Server):
    """The HTTP server inside a process whose signals are not its business."""

    def __init__(self, app: ASGIApp, *, grace_s: float, tls: ssl.SSLContext | None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=GuardedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=math.ceil(grace_s),
            )
        )
        # A context, not names of files: a renewed certificate is put into the context.
        self.config.load()
        self.config.ssl = tls

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield
