"""What passes between the master and a worker, over a socket pair, in the frames of `link.frames`."""

import asyncio
import socket
from typing import Any, Generic, TypeVar

import msgspec

from llmgw.config.gateway import GatewayConfig
from llmgw.gateway.permits import Grant, Recall, Returned, Want
from llmgw.link.frames import FrameError, pack, read_frame
from llmgw.schema.demand import AuditEntry, JudgeReport, MetricSample, ModelDemand, ReplicaDemand
from llmgw.schema.link import ViewDelta, ViewSnapshot
from llmgw.schema.value import Value
from llmgw.schema.view import View

M = TypeVar("M")


class WorkerStart(Value, frozen=True, kw_only=True, tag="worker_start"):
    """Master to worker, first: all a worker needs. Keys travel here, never in its arguments."""

    config: GatewayConfig
    view: View | None = None
    place: str | None = None
    """Where the gateway runs: replicas of the same place are asked directly."""
    open_to_all: bool = False
    any_role: bool = False
    shares: bool = False
    """There are others, workers or gateways, who want to know what this worker has where."""


class Stop(Value, frozen=True, kw_only=True, tag="stop"):
    """Master to worker: take no more connections, let open answers end, then end."""


class WorkerReady(Value, frozen=True, kw_only=True, tag="worker_ready"):
    """Worker to master: connections are accepted."""

    pid: int


class WorkerReport(Value, frozen=True, kw_only=True, tag="worker_report"):
    """Worker to master, each second: its demand and its counters, absolute."""

    demand: dict[str, ModelDemand] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    replicas: dict[str, ReplicaDemand] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    metrics: tuple[MetricSample, ...] = ()
    judges: dict[str, JudgeReport] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    audit: tuple[AuditEntry, ...] = ()
    """Records since the last report."""
    urgent: bool = False
    """Requests begin to wait for a model that must be started: tell the control plane now."""


class WorkerLoad(Value, frozen=True, kw_only=True, tag="worker_load"):
    """Worker to master, where others want to know: what it has at each replica, when that changed."""

    in_flight: dict[str, int] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    queued: dict[str, int] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    """Bytes of prompts that are not computed yet."""


class Placed(Value, frozen=True, kw_only=True):
    """A prompt was put to a replica, which has it in its cache from now on."""

    replica: str
    chain: bytes
    """Hashes of the prompt's beginnings, eight bytes each (`core.prefix`)."""


class NewlyPlaced(Value, frozen=True, kw_only=True, tag="placed"):
    """Either way: what was put to replicas."""

    placed: tuple[Placed, ...]


class Elsewhere(Value, frozen=True, kw_only=True, tag="elsewhere"):
    """Master to worker: what all others, workers and gateways, have at each replica."""

    in_flight: dict[str, int] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    queued: dict[str, int] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)


class Quarantine(Value, frozen=True, kw_only=True, tag="quarantine"):
    """Master to worker: judges that give wrong verdicts, with what they do, and single replicas that do."""

    judges: dict[str, str] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    replicas: tuple[str, ...] = ()


MasterMessage = WorkerStart | ViewSnapshot | ViewDelta | Elsewhere | NewlyPlaced | Quarantine | Grant | Recall | Stop
WorkerMessage = WorkerReady | Want | Returned | WorkerReport | WorkerLoad | NewlyPlaced


class Link(Generic[M]):
    """One end of the socket pair. Messages to an end that is gone vanish: its reader hears of it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: msgspec.json.Decoder[M]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder

    @classmethod
    async def open(cls, sock: socket.socket, kind: Any) -> "Link[M]":
        """Take over one end of a socket pair; `kind` is the union of messages that come in."""
        reader, writer = await asyncio.open_connection(sock=sock)
        return cls(reader, writer, msgspec.json.Decoder(kind))

    def send(self, message: object) -> None:
        """Send a message."""
        self.write(pack(message))

    def write(self, frame: bytes) -> None:
        """Send a message that is packed already, for those that go to all."""
        if not self._writer.is_closing():
            self._writer.write(frame)

    async def receive(self) -> M | None:
        """Wait for a message; `None` when the other end is gone."""
        try:
            frame = await read_frame(self._reader)
        except FrameError:
            return None  # the other end died within a frame
        return None if frame is None else self._decoder.decode(frame)

    def close(self) -> None:
        """Close this end; what was sent still arrives."""
        self._writer.close()
