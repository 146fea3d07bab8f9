"""A worker as the master sees it: a process, and the link to it."""

import asyncio
import socket
import subprocess
import sys
import time

from llmgw.gateway.worker_link import Link, WorkerMessage

_POLL_S = 0.02
_GRACE_S = 2.0
"""Seconds between the end of a worker's link and the end of its process before it is killed."""


class WorkerProcess:
    """One start of a worker. `number` is never used again, so that nothing of an earlier one is taken for its."""

    def __init__(self, number: int, process: "subprocess.Popen[bytes]", link: Link[WorkerMessage]) -> None:
        self.number = number
        self.link = link
        self.started_at = time.monotonic()
        self._process = process

    @classmethod
    async def start(cls, number: int, listener: socket.socket, gateway: str) -> "WorkerProcess":
        """Start a worker that inherits the listening socket and its end of a socket pair."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: ASYNC220 (fork and exec take a millisecond; our own program)
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "llmgw.gateway.worker",
                    f"--listen-fd={listener.fileno()}",
                    f"--link-fd={theirs.fileno()}",
                    f"--gateway={gateway}",
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=(listener.fileno(), theirs.fileno()),
            )
        ours.setblocking(False)
        return cls(number, process, await Link.open(ours, WorkerMessage))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def ended(self) -> int:
        """Wait for its end once its link is gone; gives the exit status, negative for a signal."""
        deadline = time.monotonic() + _GRACE_S
        while (status := self._process.poll()) is None:
            if time.monotonic() > deadline:
                self._process.kill()
            await asyncio.sleep(_POLL_S)
        return status
