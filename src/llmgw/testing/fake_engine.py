"""A fake engine that speaks the OpenAI API, counts what happens to it, and fails on order.

In a test's own loop:

    async with FakeEngine(model="tiny") as engine:
        engine.fail(Fault.DIE, arg=3)            # the next answer breaks off after 3 chunks
        … ask engine.url …
        await engine.until(lambda counts: counts.aborted == 1)

As a process, steered over HTTP (`POST /__control {"fault": "die", "arg": 3, "times": 1}`, `GET /__counts`):

    python -m llmgw.testing.fake_engine --port 0 --model tiny
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Self

from llmgw.testing import fake_answers
from llmgw.testing.fake_fault import BREAKS, Fault
from llmgw.testing.fake_http import Connection, Request

__all__ = ["Counts", "FakeEngine", "Fault", "main"]


@dataclass
class Counts:
    """What happened so far. Started, finished, aborted and faulted count inference requests."""

    started: int = 0
    finished: int = 0
    aborted: int = 0
    """The client left first."""
    faulted: int = 0
    """Ended by an ordered fault."""
    unauthorized: int = 0
    most_at_once: int = 0
    chunks: int = 0


class FakeEngine:
    """One fake engine on a port of its own. All public attributes may be changed while it runs."""

    def __init__(self, *, model: str = "fake", key: str | None = None, tokens: int = 8, port: int = 0) -> None:
        self.model = model
        self.key = key
        """Asked of every request but /health; `None` lets everybody in."""
        self.tokens = tokens
        """How far it counts."""
        self.first_chunk_s = 0.0
        self.chunk_s = 0.0
        self.slots = 4
        """Told in /props; more requests are taken all the same."""
        self.context = 4096
        self.health_status = 200
        self.script: Sequence[bytes] | None = None
        """Raw pieces that every streamed answer consists of instead of the count."""
        self.plain: Callable[[dict[str, Any]], bytes] | None = None
        """Makes the body of every plain answer from the request's: a scripted judge, say."""
        self.counts = Counts()
        self.requests: list[Request] = []
        """All inference requests, in order of arrival."""
        self.aborted_at: float | None = None
        """When the last abort was noticed, by `time.monotonic`."""
        self.url = ""
        self._port = port
        self._fault: Fault | None = None
        self._arg = 0.0
        self._times = 0
        self._open = 0
        self._connections: set[Connection] = set()
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen on loopback; `url` tells where. Starting again after `stop` takes the same port."""
        loop = asyncio.get_running_loop()
        make = lambda: Connection(self.handle, self._connections)  # noqa: E731 - a factory in one line
        self._server = await loop.create_server(make, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    async def stop(self) -> None:
        """Close the port and reset all connections, as a killed process would."""
        if self._server is None:
            return
        self._server.close()
        for connection in tuple(self._connections):
            connection.abort()
        # One turn of the loop lets the transports close.
        await asyncio.sleep(0)
        await self._server.wait_closed()
        self._server = None

    @property
    def connections(self) -> int:
        """Open connections, idle ones included."""
        return len(self._connections)

    @property
    def open_requests(self) -> int:
        """Inference requests at work now."""
        return self._open

    def fail(self, fault: Fault | None, *, arg: float = 0, times: int = 1) -> None:
        """Let the next `times` inference requests go wrong; `None` ends that."""
        self._fault, self._arg, self._times = fault, arg, times

    def close_idle(self) -> None:
        """Close idle connections, as llama.cpp does after 5 s: a pool's are stale then."""
        for connection in tuple(self._connections):
            if not connection.busy:
                connection.close()

    async def until(self, reached: Callable[[Counts], bool], *, deadline_s: float = 5.0) -> None:
        """Wait until the counts satisfy `reached`. Raises `TimeoutError` with the counts."""
        try:
            async with asyncio.timeout(deadline_s):
                while not reached(self.counts):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"not reached within {deadline_s:g} s; {self.counts}") from None

    async def handle(self, request: Request, connection: Connection) -> None:
        """Answer one request; for listeners that many engines share."""
        path = request.path.partition("?")[0]
        if path == "/health":
            body = fake_answers.dump({"status": "ok" if self.health_status == HTTPStatus.OK else "loading"})
            connection.respond(self.health_status, body)
        elif path == "/__control":
            self._control(json.loads(request.body))
            connection.respond(HTTPStatus.OK, b"{}")
        elif path == "/__counts":
            connection.respond(HTTPStatus.OK, fake_answers.dump(asdict(self.counts)))
        elif not self._authorized(request):
            self._count(unauthorized=1)
            connection.respond(
                HTTPStatus.UNAUTHORIZED, fake_answers.error(401, "Invalid API Key", "authentication_error")
            )
        elif request.method == "GET":
            self._tell(path, connection)
        else:
            await self._infer(path, request, connection)

    def _control(self, order: dict[str, Any]) -> None:
        fault = order.get("fault")
        self.fail(Fault(fault) if fault else None, arg=float(order.get("arg", 0)), times=int(order.get("times", 1)))
        for name in ("tokens", "first_chunk_s", "chunk_s", "health_status"):
            if name in order:
                setattr(self, name, order[name])

    def _authorized(self, request: Request) -> bool:
        return self.key is None or request.headers.get("authorization") == f"Bearer {self.key}"

    def _tell(self, path: str, connection: Connection) -> None:
        if path == "/v1/models":
            connection.respond(HTTPStatus.OK, fake_answers.dump(fake_answers.models(self.model)))
        elif path == "/props":
            props = {"total_slots": self.slots, "default_generation_settings": {"n_ctx": self.context}}
            connection.respond(HTTPStatus.OK, fake_answers.dump(props))
        elif path == "/metrics":
            connection.respond(HTTPStatus.OK, self._metrics().encode(), kind="text/plain; version=0.0.4")
        else:
            connection.respond(HTTPStatus.NOT_FOUND, fake_answers.error(404, "File Not Found", "not_found_error"))

    def _metrics(self) -> str:
        values = {
            "prompt_tokens_total": self.counts.started,
            "tokens_predicted_total": self.counts.chunks,
            "n_decode_total": self.counts.chunks,
            "requests_processing": self._open,
            "requests_deferred": 0,
        }
        return "".join(f"# TYPE llamacpp:{name} gauge\nllamacpp:{name} {value}\n" for name, value in values.items())

    async def _infer(self, path: str, request: Request, connection: Connection) -> None:
        self.requests.append(request)
        self._open += 1
        self.counts.most_at_once = max(self.counts.most_at_once, self._open)
        self._count(started=1)
        fault, arg = self._take_fault()
        try:
            finished = await self._answer(path, request, connection, fault, arg)
            self._count(**{"finished" if finished else "faulted": 1})
        except asyncio.CancelledError:
            self.aborted_at = time.monotonic()
            self._count(aborted=1)
            raise
        finally:
            self._open -= 1

    def _take_fault(self) -> tuple[Fault | None, float]:
        if self._fault is None or self._times == 0:
            return None, 0.0
        self._times -= 1
        return self._fault, self._arg

    async def _answer(
        self, path: str, request: Request, connection: Connection, fault: Fault | None, arg: float
    ) -> bool:
        """Answer one inference request; false when a fault ended it."""
        if fault is Fault.HANG:
            await asyncio.Event().wait()
        if fault is Fault.DROP:
            connection.close()
            return False
        if fault is Fault.STATUS:
            _respond_error(connection, int(arg))
            return False
        try:
            body = json.loads(request.body)
        except ValueError as problem:
            connection.respond(HTTPStatus.BAD_REQUEST, fake_answers.error(400, str(problem), "invalid_request_error"))
            return True
        await asyncio.sleep(self.first_chunk_s)
        if path in fake_answers.WHOLE:
            whole = fake_answers.WHOLE[path](body, self.model)
            return self._plain(fake_answers.dump(whole), connection, fault)
        if path in fake_answers.COUNTS:
            return self._plain(fake_answers.dump(fake_answers.counted(path, body)), connection, fault)
        if path not in {"/v1/chat/completions", "/v1/completions"}:
            connection.respond(HTTPStatus.NOT_FOUND, fake_answers.error(404, "File Not Found", "not_found_error"))
            return True
        answer = fake_answers.Answer(
            body=body, chat=path == "/v1/chat/completions", model=self.model, tokens=self.tokens
        )
        if body.get("stream"):
            return await self._stream(answer, connection, fault, arg)
        await asyncio.sleep(self.chunk_s * answer.count)
        if self.plain is not None:
            return self._plain(self.plain(body), connection, fault)
        whole = answer.whole(usage=fault is not Fault.NO_USAGE)
        return self._plain(fake_answers.dump(whole), connection, fault)

    def _plain(self, body: bytes, connection: Connection, fault: Fault | None) -> bool:
        if fault is Fault.DIE:
            connection.respond_half(HTTPStatus.OK, body)
            connection.abort()
            return False
        if fault is Fault.MALFORMED:
            body = body[:-5]
        connection.respond(HTTPStatus.OK, body)
        return True

    async def _stream(
        self, answer: fake_answers.Answer, connection: Connection, fault: Fault | None, arg: float
    ) -> bool:
        connection.start_stream()
        for index, piece in enumerate(self._pieces(answer, fault)):
            if fault in BREAKS and index == int(arg):
                return await self._break(connection, fault)
            await asyncio.sleep(arg if fault is Fault.SLOW else self.chunk_s)
            await connection.send(piece, odd=fault is Fault.SPLIT)
            self._count(chunks=1)
        connection.end_stream()
        return True

    def _pieces(self, answer: fake_answers.Answer, fault: Fault | None) -> list[bytes]:
        if self.script is not None:
            return list(self.script)
        pieces = [fake_answers.event(chunk) for chunk in answer.events(usage=fault is not Fault.NO_USAGE)]
        if fault is not Fault.NO_DONE:
            pieces.append(fake_answers.DONE)
        if fault is Fault.CRLF:
            return [piece.replace(b"\n", b"\r\n") for piece in pieces]
        if fault is Fault.COMMENTS:
            return [b": still here\n\n" + piece for piece in pieces]
        return pieces

    async def _break(self, connection: Connection, fault: Fault | None) -> bool:
        if fault is Fault.STALL:
            await asyncio.Event().wait()
        elif fault is Fault.CUT:
            connection.close()
        elif fault is Fault.DIE:
            connection.abort()
        else:
            event = b'data: {"choices": [\n\n' if fault is Fault.MALFORMED else _STREAM_ERROR
            await connection.send(event)
            connection.end_stream()
        return False

    def _count(self, **more: int) -> None:
        for name, value in more.items():
            setattr(self.counts, name, getattr(self.counts, name) + value)
        self._changed.set()


_STREAM_ERROR = b"data: " + fake_answers.error(500, "Compute error.", "server_error") + b"\n\n"


def _respond_error(connection: Connection, status: int) -> None:
    kinds = {401: "authentication_error", 429: "rate_limit_error", 503: "unavailable_error"}
    headers = {"retry-after": "1"} if status == HTTPStatus.TOO_MANY_REQUESTS else {}
    body = fake_answers.error(status, f"ordered fault {status}", kinds.get(status, "server_error"))
    connection.respond(status, body, headers=headers)


def main() -> None:
    """Run one engine until killed; the first line on standard output is `ready URL`."""
    parser = argparse.ArgumentParser(description="A fake engine that speaks the OpenAI API.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--model", default="fake")
    parser.add_argument("--key", default=None, help="for tests only: argv is public")
    parser.add_argument("--tokens", type=int, default=8, help="how far it counts")
    parser.add_argument("--chunk-s", type=float, default=0.0, help="seconds before each chunk")
    arguments = parser.parse_args()
    asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> None:
    engine = FakeEngine(model=arguments.model, key=arguments.key, tokens=arguments.tokens, port=arguments.port)
    engine.chunk_s = arguments.chunk_s
    async with engine:
        print(f"ready {engine.url}", flush=True)  # noqa: T201 - a program's answer
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
