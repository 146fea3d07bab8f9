# ruff: noqa: T201 - an engine's log is its standard output
"""A small engine for the agent's tests: answers what an agent asks, and misbehaves as it is told.

Not a test. Started as `python engine_script.py SHARD` with `{"key", "model", "faults"}` on standard input.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from llmgw.testing.fake_engine import FakeEngine

settings = json.loads(sys.stdin.buffer.read())
faults = settings["faults"]

if "fails" in faults:
    print("E cannot load: the weights are made of cheese", flush=True)
    sys.exit(3)
if "never_ready" in faults:
    print("E loading", flush=True)
    time.sleep(600)
if "talks_long" in faults:
    for part in range(12):
        print(f"E loading part {part}", flush=True)
        time.sleep(0.5)
if "grows_long" in faults:
    weights = []
    for _ in range(14):
        weights.append(b"x" * 4 * 1024 * 1024)
        time.sleep(0.5)
if "child" in faults:
    # A descendant that leaves the session, as engines' workers do.
    child = subprocess.Popen(["setsid", "sleep", "600"])
    print(f"child {child.pid}", flush=True)
if "deaf_to_term" in faults:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))


def tell_ready(endpoint):
    ready = {"endpoint": endpoint, "pid": os.getpid(), "version": "1.0"}
    print("READY " + json.dumps(ready), flush=True)


async def run_fake():
    async with FakeEngine(model=settings["model"], key=settings["key"]) as engine:
        tell_ready(engine.url)
        await asyncio.Event().wait()


if "fake" in faults:
    asyncio.run(run_fake())


class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            self.answer(200, {"status": "ok"})
        elif self.headers.get("authorization") != f"Bearer {settings['key']}":
            self.answer(401, {"error": {"message": "no"}})
        elif self.path == "/v1/models":
            name = "another" if "wrong_name" in faults else settings["model"]
            self.answer(200, {"data": [{"id": name}]})
        else:
            self.answer(404, {})

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(200, {"usage": {"completion_tokens": 1}})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
tell_ready(f"http://127.0.0.1:{server.server_port}")
server.serve_forever()
