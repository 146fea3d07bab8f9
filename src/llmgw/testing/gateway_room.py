"""One gateway worker in this process, a permit ledger in the master's place, and a client without a library."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from llmgw.config.gateway import GatewayConfig
from llmgw.gateway.authenticate import hash_of
from llmgw.gateway.permits import Orders, PermitLedger, Returned, Want
from llmgw.gateway.routes_view import pools_of, with_snapshot
from llmgw.gateway.wiring import build_worker
from llmgw.gateway.worker_link import WorkerReport, WorkerStart
from llmgw.relay.upstream import Endpoint, UpstreamPool, UpstreamResponse
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.guard.policy import StoredPolicy
from llmgw.schema.link import ViewSnapshot
from llmgw.schema.model import Role, Routing
from llmgw.schema.view import (
    JudgeEntry,
    KeyEntry,
    KeysSection,
    PoliciesSection,
    Route,
    RouteReplica,
    RoutesSection,
    View,
)

HASH_KEY = b"\x05" * 32
SECRET = "lk_ABCDEFGHtheRestOfIt"  # noqa: S105 (made up, for tests)
KEYS = KeysSection(
    version=1,
    hash_key=HASH_KEY.hex(),
    keys=(KeyEntry(id="lk_ABCDEFGH", hash=hash_of(HASH_KEY, SECRET.encode()), project="default"),),
)


def a_replica(
    name: str,
    url: str,
    *,
    kind: str = "openai",
    slots: int | None = None,
    context: int | None = None,
    key: str | None = None,
) -> RouteReplica:
    """Make a replica that listens at `url`."""
    return RouteReplica(
        id=name, shard=f"{name}.0", node="n1", endpoint=url, kind=kind, slots=slots, context=context, key=key
    )


def a_route(
    *replicas: RouteReplica,
    model: str = "tiny",
    role: Role = Role.CHAT,
    unavailable: str | None = None,
    hold_s: float | None = None,
    routing: Routing = Routing.PREFIX,
) -> Route:
    """Make a model's route."""
    return Route(
        model=model,
        role=role,
        created=1_700_000_000,
        replicas=replicas,
        unavailable=unavailable,
        hold_s=hold_s,
        routing=routing,
    )


def a_view(
    *routes: Route,
    version: int = 1,
    keys: KeysSection | None = KEYS,
    source: str = "c1",
    policies: PoliciesSection | None = None,
) -> View:
    """Make a view; everybody with `SECRET` is let in."""
    return View(source=source, routes=RoutesSection(version=version, routes=routes), keys=keys, policies=policies)


def policies_of(
    *policies: StoredPolicy, judges: Mapping[str, JudgeFamily | None] | None = None, version: int = 1
) -> PoliciesSection:
    """Make a section of policies; the judge is `guard`, a small Llama Guard."""
    named = {"guard": JudgeFamily.LLAMA_GUARD_3_1B} if judges is None else judges
    entries = tuple(JudgeEntry(model=model, family=family) for model, family in named.items())
    return PoliciesSection(version=version, policies=policies, judges=entries)


class Answer:
    """A whole answer."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status, self.headers, self.body = status, dict(headers), body

    def json(self) -> Any:
        """Give the body, decoded."""
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """Give the inside of an error."""
        return self.json()["error"]


class Room:
    """One worker that serves on a loopback port."""

    def __init__(self, view: View, config: GatewayConfig) -> None:
        self.view = view
        self.ledger = PermitLedger(workers=1)
        self.worker = build_worker(WorkerStart(config=config, view=view), self._heard)
        self.port = 0
        self.reports: list[WorkerReport] = []
        """What the worker told by itself."""
        self._clients = UpstreamPool()

    async def open(self) -> None:
        """Listen, with all permits."""
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        await self.worker.server.serve(listener)
        self._carry_out([*self.ledger.set_pools(pools_of(self.view)), *self.ledger.join(1)])

    async def close(self) -> None:
        """Drop all connections."""
        self._clients.close()
        await self.worker.server.drain(0.1)
        self.worker.close()
        await asyncio.sleep(0)

    def change(self, *routes: Route, keys: KeysSection | None = None, policies: PoliciesSection | None = None) -> None:
        """Give the worker another view, as the master does."""
        self.view = with_snapshot(self.view, a_view(*routes, keys=keys, policies=policies))
        self.worker.take(ViewSnapshot(view=self.view))
        self._carry_out(self.ledger.set_pools(pools_of(self.view)))

    async def start(
        self,
        path: str,
        body: object = None,
        *,
        method: str | None = None,
        key: str | None = SECRET,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> UpstreamResponse:
        """Send a request and wait for the head of its answer."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        auth = [(b"authorization", f"Bearer {key}".encode())] if key else []
        return await self._clients.request(
            Endpoint("127.0.0.1", self.port),
            method=method or ("GET" if body is None else "POST"),
            path=path,
            headers=[*auth, *headers],
            body=raw,
            first_byte_timeout_s=10,
        )

    async def ask(self, path: str, body: object = None, **options: Any) -> Answer:
        """Send a request and read its whole answer."""
        response = await self.start(path, body, **options)
        try:
            return Answer(response.status, response.headers, await response.read(1 << 24))
        finally:
            response.close()

    async def chat(self, *, model: str = "tiny", text: str = "hi", **fields: Any) -> Answer:
        """Ask for a chat completion."""
        body = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
        return await self.ask("/v1/chat/completions", body)

    def _heard(self, message: object) -> None:
        if isinstance(message, Want):
            self._carry_out(self.ledger.want(1, message))
        elif isinstance(message, Returned):
            self._carry_out(self.ledger.returned(1, message))
        elif isinstance(message, WorkerReport):
            self.reports.append(message)

    def _carry_out(self, orders: Orders) -> None:
        for _, order in orders:
            asyncio.get_running_loop().call_soon(self.worker.take, order)


async def until(reached: Callable[[], bool], *, deadline_s: float = 5.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(deadline_s):
        while not reached():  # noqa: ASYNC110 (what is waited for has no event)
            await asyncio.sleep(0.002)
