"""What the door answers: engines' inference paths, their last readings, its health. Everything else is 404."""

import asyncio

import msgspec

from llmgw.door.shards import Shards, Target
from llmgw.relay.exchange import Exchange
from llmgw.relay.forward import pipe
from llmgw.relay.request import Request
from llmgw.relay.upstream import UpstreamPool
from llmgw.schema.errors import ErrorBody

_PREFIX = "/shards/"
_JSON = [(b"content-type", b"application/json")]
_WITHHELD = frozenset((b"authorization", b"cookie", b"x-api-key"))
"""The caller's own credentials are not the engine's business."""
_SILENCE_S = 3600.0
"""Longest silence of an engine. Gateways have shorter deadlines of their own and leave; this one only bounds a
forgotten connection."""
_LINGER_S = 120.0
"""Longest wait for an engine to let go of a request whose caller left. The caller hears of it by its connection's end:
that is when it may count the slot as free."""
_METHODS = ("GET", "HEAD", "POST")


class Door:
    """Handles one exchange after the other; see `Shards` for what may be asked."""

    def __init__(self, shards: Shards, pool: UpstreamPool) -> None:
        self._shards = shards
        self._pool = pool

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        request = exchange.request
        if request.method not in _METHODS:
            _refuse(exchange, 405, "method_not_allowed", "the door takes GET, HEAD and POST")
        elif request.path.startswith(_PREFIX):
            await self._proxy(exchange)
        elif request.path == "/stats":
            exchange.respond(200, _JSON, msgspec.json.encode(self._shards.stats()))
        elif request.path == "/healthz":
            exchange.respond(200, _JSON, msgspec.json.encode({"status": "ok", "shards": len(self._shards)}))
        else:
            _refuse(exchange, 404, "not_found", "the door knows /shards/<shard>/<path>, /stats and /healthz")

    async def _proxy(self, exchange: Exchange) -> None:
        request = exchange.request
        shard_id, slash, rest = request.path.removeprefix(_PREFIX).partition("/")
        path = slash + rest
        target = self._shards.find(shard_id)
        if target is None:
            # Not the client's fault, and not for its eyes: a gateway takes 503 as "ask another replica".
            _refuse(exchange, 503, "unknown_shard", f"no engine of this name runs on this node: {shard_id}")
            return
        if path not in target.paths:
            _refuse(exchange, 404, "path_not_allowed", "the door lets only inference paths through")
            return
        await self._forward(exchange, target, f"{path}?{request.query}" if request.query else path)

    async def _forward(self, exchange: Exchange, target: Target, path: str) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- for the type checker: handlers run in tasks
        exchange.stays = True
        exchange.on_gone(task.cancel)
        response = await self._pool.request(
            target.endpoint,
            method=exchange.request.method,
            path=path,
            headers=_headers(exchange.request, target),
            body=exchange.request.body,
            first_byte_timeout_s=_SILENCE_S,
            linger_s=_LINGER_S,
        )
        try:
            await pipe(response, exchange, headers=response.headers, idle_timeout_s=_SILENCE_S)
        finally:
            await response.left()


def error_body(_status: int, code: str, message: str) -> bytes:
    """Render an error as every surface of llmgw does."""
    return msgspec.json.encode({"error": ErrorBody(code=code, message=message)})


def _refuse(exchange: Exchange, status: int, code: str, message: str) -> None:
    exchange.respond(status, _JSON, error_body(status, code, message))


def _headers(request: Request, target: Target) -> list[tuple[bytes, bytes]]:
    kept = [header for header in request.headers if header[0] not in _WITHHELD]
    kept.append((b"authorization", target.authorization))
    return kept
