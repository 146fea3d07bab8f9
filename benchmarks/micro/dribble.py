"""Many clients that send a byte now and then: half of them never end their headers, half never end their body.

Prints the number of connections once all are open, and dribbles on until it is terminated.
"""

import argparse
import asyncio
from typing import cast

import uvloop
from benchmarks.micro.messages import request

STEP_S = 0.25
"""Seconds between two bytes of one client."""
_BODY_SENT = 64


class Dribbler(asyncio.Protocol):
    """One slow client. `at_once` is how much of its request goes out when it connects."""

    def __init__(self, at_once: int) -> None:
        self._request = request(stream=False)
        self._sent = at_once

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the beginning."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request[: self._sent])
        asyncio.get_running_loop().call_later(STEP_S, self._step)

    def _step(self) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(self._request[self._sent : self._sent + 1])
        self._sent += 1
        asyncio.get_running_loop().call_later(STEP_S, self._step)


async def _dribble(port: int, count: int) -> None:
    loop = asyncio.get_running_loop()
    head = request(stream=False).index(b"\r\n\r\n") + 4
    for number in range(count):
        at_once = head + _BODY_SENT if number % 2 else 1
        await loop.create_connection(lambda at_once=at_once: Dribbler(at_once), "127.0.0.1", port)  # type: ignore[misc]  # a default binds the loop's variable
        await asyncio.sleep(STEP_S / count)
    print(count, flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Dribble until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    options = parser.parse_args()
    uvloop.run(_dribble(options.port, options.count))


if __name__ == "__main__":
    main()
