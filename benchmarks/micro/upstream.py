"""A minimal engine: answers whole requests with fixed bytes, parsing no more than it must. Prints its port."""

import asyncio
import re
from typing import cast

import uvloop
from benchmarks.micro.messages import CHUNK, CHUNKS, PLAIN_ANSWER, STEP_S, STREAM_HEAD, STREAM_TAIL, STREAMED

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class Upstream(asyncio.Protocol):
    """One connection; a request begins after the answer to the one before."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self.data = b""

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self.data += data
        end = self.data.find(b"\r\n\r\n")
        found = _LENGTH.search(self.data)
        if end < 0 or found is None or len(self.data) < end + 4 + int(found[1]):
            return
        streamed = STREAMED in self.data
        self.data = b""
        if streamed:
            self.transport.write(STREAM_HEAD)
            self._step(CHUNKS, asyncio.get_running_loop().time())
        else:
            self.transport.write(PLAIN_ANSWER)

    def _step(self, left: int, due: float) -> None:
        if left == 0:
            self.transport.write(STREAM_TAIL)
            return
        self.transport.write(CHUNK)
        asyncio.get_running_loop().call_at(due + STEP_S, self._step, left - 1, due + STEP_S)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve())
