"""Length-prefixed frames over a byte stream: four bytes big endian, then a JSON message."""

import asyncio
import struct

import msgspec

MAX_FRAME = 64 * 1024 * 1024
"""A routing view of 10,000 models stays below 16 MB; more is a broken or foreign peer."""

_LENGTH = struct.Struct(">I")
_ENCODER = msgspec.json.Encoder()


class FrameError(Exception):
    """The other side sent something that is not a frame of ours."""


def pack(message: object) -> bytes:
    """Encode one message with its length."""
    return framed(_ENCODER.encode(message))


def framed(body: bytes) -> bytes:
    """Put its length before a message that is encoded already."""
    return _LENGTH.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader, *, most: int = MAX_FRAME) -> bytes | None:
    """Read one frame's body of `most` bytes at most; `None` at a clean end. Raises `FrameError` for any other frame."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > most:
            raise FrameError(f"frame of {length} bytes, more than {most}: not a peer of ours")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise FrameError(f"stream ended within a frame after {len(error.partial)} bytes") from error
        return None
    except ConnectionError:
        return None
