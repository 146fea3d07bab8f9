"""What gateways tell each other, in frames of fixed-size numbers: their load, and what they put to replicas.

    head    kind (1 byte), sequence (8), count (4), big endian
    load    `count` records of 20 bytes: replica id (12 bytes, filled up with zeros), requests of this gateway there
            now (4), bytes of their prompts that are not computed yet (4)
    placed  replica id (12), then `count` hashes of 8 bytes: the beginnings of a prompt that the replica has now

Never a prompt's text. Frames of kinds that are not known are passed over: there will be others.
"""

import struct

from llmgw.gateway.worker_link import Placed
from llmgw.schema.value import Value

LOAD, PLACED = 2, 3
_HEAD = struct.Struct(">BQI")
_ID_BYTES = 12
_HASH_BYTES = 8
_RECORD = struct.Struct(f">{_ID_BYTES}sII")
_MOST = 2**32 - 1


class BadRecords(Exception):
    """A frame that is not of our making."""


class PeerLoad(Value, frozen=True, kw_only=True):
    """All that one gateway has at replicas, absolute; `sequence` grows with each telling."""

    sequence: int
    in_flight: dict[str, int]
    queued: dict[str, int] = {}  # noqa: RUF012 (msgspec copies empty mutable defaults)
    """Bytes of prompts that are not computed yet."""


def pack_load(load: PeerLoad) -> bytes:
    """Encode it. Replicas whose id is longer than ours are (a gateway alone names its own) are left out."""
    names = {name: encoded for name in load.in_flight if len(encoded := name.encode()) <= _ID_BYTES}
    records = [
        _RECORD.pack(encoded, min(load.in_flight[name], _MOST), min(load.queued.get(name, 0), _MOST))
        for name, encoded in names.items()
        if load.in_flight[name] > 0
    ]
    return _HEAD.pack(LOAD, load.sequence, len(records)) + b"".join(records)


def pack_placed(placed: Placed) -> bytes | None:
    """Encode it; `None` for a replica whose id is longer than ours are."""
    name = placed.replica.encode()
    if len(name) > _ID_BYTES:
        return None
    count = len(placed.chain) // _HASH_BYTES
    return _HEAD.pack(PLACED, 0, count) + name.ljust(_ID_BYTES, b"\0") + placed.chain


def unpack(frame: bytes) -> PeerLoad | Placed | None:
    """Decode a frame; `None` for one of another kind. Raises `BadRecords`."""
    if len(frame) < _HEAD.size:
        raise BadRecords(f"a frame of {len(frame)} bytes has no head")
    kind, sequence, count = _HEAD.unpack_from(frame)
    body = memoryview(frame)[_HEAD.size :]
    try:
        if kind == LOAD:
            return _load(body, sequence, count)
        return _placed(body, count) if kind == PLACED else None
    except UnicodeDecodeError as error:
        raise BadRecords("a replica's id is not text") from error


def _load(body: memoryview, sequence: int, count: int) -> PeerLoad:
    if len(body) != count * _RECORD.size:
        raise BadRecords(f"{len(body)} bytes do not hold {count} records")
    found = [(_text(name), requests, queued) for name, requests, queued in _RECORD.iter_unpack(body)]
    return PeerLoad(
        sequence=sequence,
        in_flight={name: requests for name, requests, _ in found},
        queued={name: queued for name, _, queued in found if queued},
    )


def _placed(body: memoryview, count: int) -> Placed:
    if len(body) != _ID_BYTES + count * _HASH_BYTES:
        raise BadRecords(f"{len(body)} bytes do not hold {count} hashes")
    return Placed(replica=_text(bytes(body[:_ID_BYTES])), chain=bytes(body[_ID_BYTES:]))


def _text(name: bytes) -> str:
    return name.rstrip(b"\0").decode()
