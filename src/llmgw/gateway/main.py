"""The gateway's process: a small master that owns the port and keeps its workers."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import uvloop

from llmgw.config.data_dir import make_data_dir
from llmgw.config.gateway import GatewayConfig
from llmgw.config.logging import LogLevel
from llmgw.config.open_files import raise_open_files
from llmgw.config.tls import Tls
from llmgw.gateway.alone import alone_start
from llmgw.gateway.control_line import ControlLine, TlsLine, UnixLine
from llmgw.gateway.control_link import ControlLink
from llmgw.gateway.listener import listen
from llmgw.gateway.master import Master, Send
from llmgw.gateway.peer_folder import PeerFolder
from llmgw.gateway.peers import Peers
from llmgw.gateway.placements import Placements
from llmgw.gateway.shared_load import SharedLoad
from llmgw.gateway.tls import GatewayTls, gateway_tls
from llmgw.gateway.view_file import ViewFile
from llmgw.gateway.worker_link import WorkerStart
from llmgw.hardware.proc import place
from llmgw.link.peers import admitting
from llmgw.schema.identity import Part
from llmgw.schema.link import ControlMessage, GatewayHello
from llmgw.schema.view import Peer
from llmgw.telemetry import log as logs

KEY_VARIABLE = "LLMGW_GATEWAY_KEY"

log = logs.get(__name__)


def run(config: GatewayConfig) -> int:
    """Run a gateway of a fleet until it is told to stop. Raises `LlmgwError` when it cannot listen."""
    logs.configure(level=config.log_level, style=config.log_format, process="gateway")
    data_dir = make_data_dir(config.data_dir)
    tls = gateway_tls(config)  # workers read it for themselves: what is wrong with it is told here, once
    view_file = ViewFile(data_dir / "view.json")
    listener = listen(config.listen)
    peer_listener = None if config.peer_listen is None else listen(config.peer_listen)
    peer = None if peer_listener is None else config.peer_address or _address(peer_listener)
    hello = GatewayHello(gateway=config.name, version=version("llmgw"), pid=os.getpid(), peer=peer)

    def connect(take: Callable[[ControlMessage], None]) -> ControlLink:
        return ControlLink(_lines(config, tls), hello, take)

    share = None if peer_listener is None else _sharing(config, tls, hello, peer_listener)
    start = WorkerStart(config=config, view=view_file.load(), place=place())

    def build() -> Master:
        return Master(listener, start, view_file=view_file, connect=connect, tls=tls, share=share)

    return _run(listener, start, build)


def run_alone(
    *,
    port: int,
    routes: Mapping[str, tuple[str, ...]],
    engine_kind: str,
    workers: int,
    host: str = "127.0.0.1",
    log_level: LogLevel = LogLevel.WARNING,
    share: Path | None = None,
) -> int:
    """Run a gateway alone, in front of engines that already run: `routes` gives the engines' URLs by model name.

    The key clients must send is taken from LLMGW_GATEWAY_KEY; without it everybody is let in. Those with the same
    folder `share` tell each other what they have at engines. Raises `LlmgwError`.
    """
    logs.configure(level=log_level, style="auto", process="gateway")
    start = alone_start(
        listen=f"{host}:{port}",
        routes=routes,
        engine_kind=engine_kind,
        workers=workers,
        key=os.environ.get(KEY_VARIABLE) or None,
        log_level=log_level,
    )
    listener = listen(start.config.listen)
    sharing = None if share is None else _sharing_alone(make_data_dir(str(share)), listener)
    return _run(listener, start, lambda: Master(listener, start, share=sharing))


def _sharing(
    config: GatewayConfig, tls: GatewayTls | None, hello: GatewayHello, sock: socket.socket
) -> Callable[[Send], SharedLoad]:
    def share(send: Send) -> SharedLoad:
        identity = None if tls is None else tls.identity
        known = Placements()
        peers = Peers(
            config.name,
            version=hello.version,
            identity=identity,
            plain_anywhere=config.tls is Tls.OFF,
            known=known.all,
        )
        return SharedLoad(send, peers=peers, sock=sock, placements=known)

    return share


def _sharing_alone(folder: Path, listener: socket.socket) -> Callable[[Send], SharedLoad]:
    sock = listen("127.0.0.1:0")
    own = Peer(name=f"port-{listener.getsockname()[1]}", address=_address(sock))

    def share(send: Send) -> SharedLoad:
        known = Placements()
        peers = Peers(own.name, version=version("llmgw"), identity=None, known=known.all)
        return SharedLoad(send, peers=peers, sock=sock, folder=PeerFolder(folder, own), placements=known)

    return share


def _address(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _lines(config: GatewayConfig, tls: GatewayTls | None) -> tuple[ControlLine, ...]:
    if config.control_socket is not None or tls is None:
        return (UnixLine(Path(config.control_socket or "")),)
    context, refuse = tls.identity.dialling(), admitting(Part.SERVER)
    return tuple(TlsLine(address, context, refuse) for address in config.control)


def _run(listener: socket.socket, start: WorkerStart, build: Callable[[], Master]) -> int:
    raise_open_files()  # workers inherit it
    host, port = listener.getsockname()[:2]
    log.info("gateway.listening", host=host, port=port, workers=start.config.workers)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_stopped(build))
    return 0


async def _until_stopped(build: Callable[[], Master]) -> None:
    master = build()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set():
            master.kill_workers()  # asked twice: at once
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    await master.run(stop)
