"""One listener that stands for the doors of all fake nodes: `/shards/ID/…` is answered by a fake engine of its own."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Self

from llmgw.testing import fake_answers
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.fake_http import Connection, Request

_SHARD = re.compile(r"/shards/([^/]+)(/.*)")


ModelOf = Callable[[str], Awaitable[str | None]]


class Gone(Exception):
    """The node is dead: its connections break."""


class FakeDoors:
    """Listens on `host`. `model_of` gives the model a shard serves now, `None` when there is none to answer.

    It may raise `Gone`, and wait as long as a node cannot be reached.
    """

    def __init__(self, model_of: ModelOf, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.address = ""
        """`host:port`, once it listens."""
        self.chunk_s = 0.0
        """Seconds before each chunk of an answer."""
        self._model_of = model_of
        self._host = host
        self._port = port
        self._engines: dict[str, FakeEngine] = {}
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        make: Callable[[], Connection] = lambda: Connection(self._handle, self._connections)  # noqa: E731 - a factory
        self._server = await asyncio.get_running_loop().create_server(make, self._host, self._port)
        self.address = f"{self._host}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None  # noqa: S101 - for the type checker: it was entered
        self._server.close()
        for connection in tuple(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # one turn of the loop lets the transports close
        await self._server.wait_closed()

    def answered(self) -> int:
        """Count the answers so far, of all engines."""
        return sum(engine.counts.finished for engine in self._engines.values())

    async def _handle(self, request: Request, connection: Connection) -> None:
        found = _SHARD.fullmatch(request.path)
        if found is None:
            connection.respond(HTTPStatus.NOT_FOUND, fake_answers.error(404, "no door", "not_found_error"))
            return
        shard, path = found.groups()
        try:
            model = await self._model_of(shard)
        except Gone:
            connection.abort()
            return
        if model is None:
            error = fake_answers.error(503, "unknown shard", "unavailable_error")
            connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, error)
            return
        await self._engine(shard, model).handle(replace(request, path=path), connection)

    def _engine(self, shard: str, model: str) -> FakeEngine:
        engine = self._engines.setdefault(shard, FakeEngine(model=model))
        engine.chunk_s = self.chunk_s
        return engine
