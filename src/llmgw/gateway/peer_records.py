"""Load as gateways tell it each other: a head, then one record of 16 bytes for each replica that has any.

    head    kind (1 byte), sequence (8), count of records (4), big endian
    record  replica id (12 bytes, filled up with zeros), requests of this gateway there now (4)

Frames of kinds that are not known are passed over: there will be others.
"""

import struct

from llmgw.schema.value import Value

LOAD = 1
_HEAD = struct.Struct(">BQI")
_ID_BYTES = 12
_RECORD = struct.Struct(f">{_ID_BYTES}sI")
_MOST = 2**32 - 1


class BadRecords(Exception):
    """A frame that is not of our making."""


class PeerLoad(Value, frozen=True, kw_only=True):
    """All that one gateway has at replicas, absolute; `sequence` grows with each telling."""

    sequence: int
    in_flight: dict[str, int]


def pack_load(load: PeerLoad) -> bytes:
    """Encode it. Replicas whose id is longer than ours are (a gateway alone names its own) are left out."""
    names = {name.encode(): count for name, count in load.in_flight.items() if count > 0}
    records = [_RECORD.pack(name, min(count, _MOST)) for name, count in names.items() if len(name) <= _ID_BYTES]
    return _HEAD.pack(LOAD, load.sequence, len(records)) + b"".join(records)


def unpack_load(frame: bytes) -> PeerLoad | None:
    """Decode it; `None` for a frame of another kind. Raises `BadRecords`."""
    if len(frame) < _HEAD.size:
        raise BadRecords(f"a frame of {len(frame)} bytes has no head")
    kind, sequence, count = _HEAD.unpack_from(frame)
    if kind != LOAD:
        return None
    if len(frame) != _HEAD.size + count * _RECORD.size:
        raise BadRecords(f"a frame of {len(frame)} bytes does not hold {count} records")
    records = _RECORD.iter_unpack(memoryview(frame)[_HEAD.size :])
    try:
        return PeerLoad(sequence=sequence, in_flight={name.rstrip(b"\0").decode(): load for name, load in records})
    except UnicodeDecodeError as error:
        raise BadRecords("a replica's id is not text") from error
