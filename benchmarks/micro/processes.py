"""The processes under test and around it, each started, told its end, and waited for."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.micro.messages import KEY

ROOT = Path(__file__).resolve().parents[2]
_READY_S = 20.0
_STOP_S = 5.0


@contextlib.contextmanager
def module(name: str, *arguments: str) -> Iterator[tuple[int, int]]:
    """Run `benchmarks.micro.NAME`, which prints a number (mostly its port) once it runs; gives (number, pid)."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.micro.{name}", *arguments],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise RuntimeError(f"benchmarks.micro.{name} did not start")
        yield int(line), process.pid
    finally:
        _end(process)


@contextlib.contextmanager
def gateway(engine: int) -> Iterator[tuple[int, int]]:
    """Run a whole gateway with one worker in front of an engine's port; gives (port, pid of the master)."""
    with tempfile.TemporaryDirectory(prefix="llmgw-bench-") as folder:
        port, log = _free_port(), Path(folder, "log.txt")
        command = [sys.executable, str(ROOT / "benchmarks" / "fleet_gateway.py"), f"--port={port}", f"--dir={folder}"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, f"--engines=http://127.0.0.1:{engine}"],
                stdout=out,
                stderr=out,
                env=os.environ | {"LLMGW_GATEWAY_KEY": KEY},
            )
        try:
            _wait_for(port, process, log)
            yield port, process.pid
        finally:
            _end(process)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while not _healthy(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the gateway is not ready; its log:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _end(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
