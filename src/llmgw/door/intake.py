"""The unix socket on which the agent hands in its engines and their readings."""

import asyncio
import contextlib
import socket
from pathlib import Path

import msgspec

from llmgw.door.shards import Shards
from llmgw.link import frames
from llmgw.schema.door import DoorUpdate
from llmgw.schema.errors import InvalidInput
from llmgw.telemetry import log

_LOG = log.get(__name__)
_DECODER = msgspec.json.Decoder(DoorUpdate)


class Intake:
    """Takes whole sets until closed. A broken agent costs its connection and changes nothing."""

    def __init__(self, path: Path, shards: Shards) -> None:
        self._path = path
        self._shards = shards
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen, for this user only (mode 0600). A socket left by an earlier door is replaced."""
        self._server = await asyncio.start_unix_server(self._take, sock=_listener(self._path))

    async def close(self) -> None:
        """Stop listening; what was handed in stays."""
        if self._server is not None:
            self._server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- for the type checker: connections are served in tasks
        self._talks.add(task)
        try:
            while (frame := await frames.read_frame(reader)) is not None:
                self._shards.update(_DECODER.decode(frame))
        except (frames.FrameError, msgspec.DecodeError) as error:
            _LOG.warning("door.bad_update", error=str(error))
        except asyncio.CancelledError:
            return  # the door closes; asyncio's streams would log a cancelled connection as an error
        finally:
            self._talks.discard(task)
            writer.close()


def _listener(path: Path) -> socket.socket:
    """Bind under another name first, so that nobody ever finds the socket with a wider mode."""
    hidden = path.with_name(f".{path.name}.new")
    hidden.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(str(hidden))
        hidden.chmod(0o600)
        hidden.replace(path)
    except OSError as error:
        sock.close()
        with contextlib.suppress(OSError):
            hidden.unlink(missing_ok=True)
        raise InvalidInput(
            f"cannot listen on {path}: {error.strerror or error}",
            hint="choose a data_dir that this user can write and whose path is below 90 characters",
            field="data_dir",
        ) from error
    return sock
