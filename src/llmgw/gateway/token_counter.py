"""Counting the tokens of a prompt by asking an engine: its tokenizer and its chat template are the only true ones.

Engines count beside their work, so this takes no slot and waits for none.
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from llmgw.gateway.call import Call
from llmgw.gateway.errors import ApiError, from_engine, model_unavailable, upstream_failed, upstream_timeout
from llmgw.gateway.routes_view import LiveRoute, Target
from llmgw.relay.errors import UpstreamError, UpstreamTimeout
from llmgw.relay.upstream import UpstreamPool
from llmgw.schema.engine import EngineKind

TIMEOUT_S = 30.0
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""vLLM gives the numbers of all tokens along with their count."""
TRIES = 2
"""Replicas asked in turn."""

_DECODE = msgspec.json.Decoder(dict[str, Any]).decode
_OK, _NOT_FOUND = 200, 404
_STRANGER = frozenset({401, 403})


class Way(NamedTuple):
    """Where an engine counts the tokens of a chat's body, and what it calls their number."""

    path: str
    member: str


WAYS: Mapping[str, Way] = {
    EngineKind.LLAMACPP: Way("/v1/chat/completions/input_tokens", "input_tokens"),
    EngineKind.VLLM: Way("/tokenize", "count"),
}


class TokenCounter:
    """One worker's way to engines' tokenizers."""

    def __init__(self, pool: UpstreamPool) -> None:
        self._pool = pool

    async def count(self, call: Call, route: LiveRoute) -> int:
        """Count the tokens of the chat in the request's body. Raises `ApiError`."""
        targets = sorted(route.targets, key=lambda one: (one.ejected_until > time.monotonic(), one.load))
        if not targets:
            raise model_unavailable(route.model, route.unavailable)
        for target in targets[:TRIES]:
            way = WAYS.get(target.kind)
            if way is None:
                raise _cannot(target)
            call.replica = target.id
            try:
                return await self._ask(call, target, way)
            except UpstreamTimeout as error:
                raise upstream_timeout(route.model) from error
            except UpstreamError:
                target.failed(time.monotonic())
        raise upstream_failed(route.model, "its engine broke off or takes no connections")

    async def _ask(self, call: Call, target: Target, way: Way) -> int:
        response = await self._pool.request(
            target.endpoint,
            method="POST",
            path=target.prefix + way.path,
            headers=[
                (b"content-type", b"application/json"),
                (b"x-request-id", call.request_id),
                *target.headers,
            ],
            body=call.exchange.request.body,
            first_byte_timeout_s=TIMEOUT_S,
        )
        try:
            body = await response.read(MAX_ANSWER_BYTES, idle_timeout_s=TIMEOUT_S)
        finally:
            response.close()
        return _read(response.status, body, target, way)


def _read(status: int, body: bytes, target: Target, way: Way) -> int:
    if status == _NOT_FOUND:
        raise _cannot(target)
    if status in _STRANGER:
        raise upstream_failed(target.model, "its engine does not accept this gateway's key")
    if status != _OK:
        raise from_engine(status, body)
    try:
        count = _DECODE(body).get(way.member)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        count = None
    if not isinstance(count, int):
        raise upstream_failed(target.model, "its engine told no number of tokens")
    return count


def _cannot(target: Target) -> ApiError:
    return ApiError(
        501,
        f"the tokens of a prompt for the model {target.model!r} cannot be counted: its engine ({target.kind}) does not"
        " count without answering; send the message with 'max_tokens': 1 and read 'usage'",
        code="cannot_count_tokens",
        kind="server_error",
        param="model",
        headers=((b"x-should-retry", b"false"),),
    )
