"""What the control plane and its plan worker say to each other: what changed of the fleet, and plans.

Length-prefixed msgpack over the worker's standard input and output.
"""

import struct
from collections.abc import Iterable
from datetime import datetime
from typing import BinaryIO, TypeVar

import msgspec
from msgspec.structs import replace

from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.schema.plan import Plan
from llmgw.schema.replica import Replica, Shard
from llmgw.schema.value import Value

MAX_FRAME = 256 * 1024 * 1024

V = TypeVar("V")


class Changed(Value, frozen=True, kw_only=True, tag="changed"):
    """Parts of the fleet, new or as they are now."""

    nodes: tuple[NodeSnapshot, ...] = ()
    models: tuple[ModelSnapshot, ...] = ()
    replicas: tuple[Replica, ...] = ()


class Gone(Value, frozen=True, kw_only=True, tag="gone"):
    """Parts of the fleet that are no more."""

    nodes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    replicas: tuple[str, ...] = ()


class Ask(Value, frozen=True, kw_only=True, tag="ask"):
    """Plan for the fleet as told so far. Answered with a `Plan`."""

    now: datetime
    doubtful: frozenset[str]


Message = Changed | Gone | Ask


class Parts:
    """The parts of a fleet as they were told one after the other."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeSnapshot] = {}
        self.models: dict[str, ModelSnapshot] = {}
        self.replicas: dict[str, Replica] = {}

    def take_in(self, message: Changed | Gone) -> None:
        """Learn what changed."""
        match message:
            case Gone():
                _drop(self.nodes, message.nodes)
                _drop(self.models, message.models)
                _drop(self.replicas, message.replicas)
            case Changed():
                self.nodes.update((seen.node.id, seen) for seen in message.nodes)
                self.models.update((seen.model.name, seen) for seen in message.models)
                self.replicas.update((replica.id, replica) for replica in message.replicas)

    def snapshot(self, ask: Ask) -> Snapshot:
        """Give the fleet to plan for."""
        return Snapshot(
            now=ask.now,
            nodes=tuple(self.nodes.values()),
            models=tuple(self.models.values()),
            replicas=tuple(self.replicas.values()),
            doubtful=ask.doubtful,
        )


# On the wire --------------------------------------------------------------------------------------

_LENGTH = struct.Struct(">I")
_ENCODER = msgspec.msgpack.Encoder()
_MESSAGES = msgspec.msgpack.Decoder(Message)
_PLANS = msgspec.msgpack.Decoder(Plan)
LENGTH_BYTES = _LENGTH.size


def pack(message: Message | Plan) -> bytes:
    """Encode with the length in front. What no plan depends on is left out, engine keys among it."""
    if isinstance(message, Changed):
        message = Changed(
            nodes=tuple(replace(seen, reports=None if seen.reports is None else ()) for seen in message.nodes),
            models=message.models,
            replicas=tuple(_bare(replica) for replica in message.replicas),
        )
    body = _ENCODER.encode(message)
    return _LENGTH.pack(len(body)) + body


def length(head: bytes) -> int:
    """Read the length in front of a message. Raises `ValueError` for what cannot be one."""
    (size,) = _LENGTH.unpack(head)
    if size > MAX_FRAME:
        raise ValueError(f"frame of {size} bytes")
    return int(size)


def unpack_plan(body: bytes) -> Plan:
    """Decode a plan."""
    return _PLANS.decode(body)


def read(stream: BinaryIO) -> Message | None:
    """Read one message; `None` at the end of the stream."""
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    size = length(head)
    body = stream.read(size)
    return _MESSAGES.decode(body) if len(body) == size else None


def _bare(replica: Replica) -> Replica:
    shards = tuple(Shard(id=shard.id, rank=shard.rank, allocation=shard.allocation, key="") for shard in replica.shards)
    return replace(replica, shards=shards, restarts=(), reason=None)


def _drop(table: dict[str, V], names: Iterable[str]) -> None:
    for name in names:
        table.pop(name, None)
