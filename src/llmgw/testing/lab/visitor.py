"""Somebody on a host of the laboratory: threads of this process whose sockets are that host's."""

import ctypes
import http.client
import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from llmgw.link.api import Api
from llmgw.testing.lab.network import Network

T = TypeVar("T")
_NETWORK = 0x40000000
"""CLONE_NEWNET, of sched.h."""


class Visitor:
    """Runs functions on a host. Use `close` at the end."""

    def __init__(self, network: Network, host: str) -> None:
        path = f"/run/netns/{network.namespace(host)}"
        self._pool = ThreadPoolExecutor(max_workers=8, initializer=_enter, initargs=(path,))
        self._path = path

    def run(self, work: Callable[[], T]) -> T:
        """Run `work` there and give what it gives."""
        return self._pool.submit(work).result()

    def api(self, address: str, token: str, *, timeout_s: float = 3.0) -> "HostApi":
        """Give the admin API at `host:port`, called from there."""
        return HostApi(self, Api(f"http://{address}", token, timeout_s=timeout_s))

    def loop(self, work: Callable[[], object]) -> "Loop":
        """Begin to do `work` there over and over."""
        return Loop(self._path, work)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True)


class HostApi:
    """The admin API as a visitor reaches it."""

    def __init__(self, visitor: Visitor, api: Api) -> None:
        self._visitor = visitor
        self._api = api

    def get(self, path: str) -> Any:
        """GET."""
        return self._visitor.run(lambda: self._api.get(path))

    def post(self, path: str, body: object | None = None) -> Any:
        """POST."""
        return self._visitor.run(lambda: self._api.post(path, body))

    def delete(self, path: str) -> Any:
        """DELETE."""
        return self._visitor.run(lambda: self._api.delete(path))


class Loop:
    """A thread on a host that does something until told to stop; what it raises is kept and ends nothing."""

    def __init__(self, path: str, work: Callable[[], object]) -> None:
        self.done = 0
        self.errors: list[Exception] = []
        self.gap_s = 0.0
        """Longest time between two successes."""
        self._work = work
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it after the round it is in."""
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        _enter(self._path)
        last = time.monotonic()
        while not self._stop.is_set():
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 (whatever it is, the test looks at it afterwards)
                self.errors.append(error)
                self._stop.wait(0.05)
                continue
            now = time.monotonic()
            self.done, self.gap_s, last = self.done + 1, max(self.gap_s, now - last), now


def chat(
    address: str, key: str, model: str, *, stream: bool = False, timeout_s: float = 20.0, connect_s: float | None = None
) -> str:
    """Ask for one chat completion at `host:port`. Raises `RuntimeError` for an answer that is none, or is cut.

    `connect_s` bounds connecting, where that is to be shorter than the wait for an answer.
    """
    connection = http.client.HTTPConnection(address, timeout=connect_s or timeout_s)
    body = {"model": model, "messages": [{"role": "user", "content": "count"}], "max_tokens": 5, "stream": stream}
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    try:
        connection.connect()
        connection.sock.settimeout(timeout_s)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    whole = text.rstrip().endswith("data: [DONE]") if stream else text.rstrip().endswith("}")
    if response.status != http.client.OK or not whole or '"error"' in text:
        raise RuntimeError(f"HTTP {response.status}: {text[-300:]}")
    return text


def _enter(path: str) -> None:
    """Put this thread into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if libc.setns(descriptor, _NETWORK) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {path}")
    finally:
        os.close(descriptor)
