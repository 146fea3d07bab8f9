"""A request is put to a replica, and to another one if that fails before a byte of the answer went out."""

import asyncio
import time
import zlib

import msgspec

from llmgw.core.prefix import BLOCK_BYTES
from llmgw.core.routing import Prompt
from llmgw.gateway.admit import Admission
from llmgw.gateway.answer import Answerer
from llmgw.gateway.ask import Ask
from llmgw.gateway.call import Call
from llmgw.gateway.errors import ApiError, upstream_failed, upstream_timeout
from llmgw.gateway.hold import Holder
from llmgw.gateway.linger import LINGER_S
from llmgw.gateway.metrics import WorkerCounters
from llmgw.gateway.place import TELLING_BLOCKS, Place
from llmgw.gateway.retry import RetryBudget
from llmgw.gateway.routes_view import LiveRoute, Target
from llmgw.relay.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable
from llmgw.relay.upstream import UpstreamPool, UpstreamResponse
from llmgw.schema.engine import EngineKind
from llmgw.schema.model import Routing
from llmgw.telemetry import log as logs

MAX_RETRIES = 2
SESSION_HEADER = b"x-session-id"
"""By which models with `routing: session` know who belongs together."""

log = logs.get(__name__)

_STRANGER = frozenset({401, 403})
"""Only we know a replica's key: who refuses it is another program on its port."""
_ELSEWHERE = frozenset({429, 500, 502, 503, 504})
"""The replica cannot answer now (loading, full, sick): another one may."""
_AWAY = frozenset({502, 503})
_FULL = 429
_ERROR = 400
_PASSED_ON = frozenset({b"traceparent", b"tracestate"})


class _Failed(Exception):
    """A replica failed before the client got anything. `error` is what the client gets if no other one is asked."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


class Dispatcher:
    """One worker's way to the engines."""

    def __init__(
        self,
        admission: Admission,
        holder: Holder,
        pool: UpstreamPool,
        answerer: Answerer,
        counters: WorkerCounters,
        *,
        first_byte_timeout_s: float,
    ) -> None:
        self._admission = admission
        self._holder = holder
        self._pool = pool
        self._answerer = answerer
        self._counters = counters
        self._first_byte_s = first_byte_timeout_s
        self._budget = RetryBudget()

    async def run(self, call: Call, ask: Ask, route: LiveRoute) -> None:
        """Answer `call`. Raises `ApiError` when that was not possible and nothing has gone out."""
        counters = self._counters
        counters.arrivals[route.model] += 1
        counters.in_flight[route.model] += 1
        call.gap = counters.between_tokens(route.model).observe
        self._budget.earn()
        try:
            await self._try_in_turn(call, ask, route)
        finally:
            counters.in_flight[route.model] -= 1

    async def _try_in_turn(self, call: Call, ask: Ask, route: LiveRoute) -> None:
        tried: frozenset[str] = frozenset()
        prompt = ask.prompt if route.routing is not Routing.SESSION else _of_session(call, ask.prompt)
        while True:
            with await self._holder.enter(call, ask, route, prompt, tried) as place:
                target, call.place = place.target, place
                call.replica = target.id
                try:
                    await self._attempt(call, ask, place)
                    place.told(call.meter)
                    return
                except _Failed as failed:
                    failure = failed
            tried |= {target.id}
            route = self._admission.now(route)
            untried = any(other.id not in tried for other in route.targets)
            if not untried or call.retries >= MAX_RETRIES or not self._budget.spend():
                raise failure.error from failure
            call.retries += 1

    async def _attempt(self, call: Call, ask: Ask, place: Place) -> None:
        target = place.target
        if ask.streams or target.kind == EngineKind.LLAMACPP or place.own < TELLING_BLOCKS * BLOCK_BYTES:
            await self._put(call, ask, target)
            return
        # The engine will not say by a first token that it computed this long prompt: it counts until it should have.
        timer = asyncio.get_running_loop().call_later(place.expected_s(), place.computed)
        try:
            await self._put(call, ask, target)
        finally:
            timer.cancel()

    async def _put(self, call: Call, ask: Ask, target: Target) -> None:
        try:
            response = await self._pool.request(
                target.endpoint,
                method="POST",
                path=target.prefix + ask.path,
                headers=_headers(call, target),
                body=ask.body(target.kind, target.context),
                first_byte_timeout_s=self._first_byte_s,
                linger_s=LINGER_S if target.slots is not None else 0.0,
            )
            try:
                await self._judge(response, target)
                await self._answerer.give(call, ask, target.kind, response)
            finally:
                response.close()
                await response.left()
        except UpstreamTimeout as error:
            raise upstream_timeout(target.model) from error  # it took its time: another try would take as much again
        except UpstreamUnreachable as error:
            target.failed(time.monotonic())
            if target.breaker.strikes == 1:
                log.warning("replica.unreachable", replica=target.id, reason=str(error))
            raise _Failed(upstream_failed(target.model, "its engine takes no connections")) from error
        except UpstreamError as error:
            target.stumbled(time.monotonic())
            raise _Failed(
                upstream_failed(target.model, "its engine broke off before the answer was complete")
            ) from error

    async def _judge(self, response: UpstreamResponse, target: Target) -> None:
        """Raise for answers that are none. A client's error is the client's: it never counts against the replica."""
        status = response.status
        if status in _STRANGER:
            target.failed(time.monotonic())
            raise _Failed(upstream_failed(target.model, "its engine does not accept this gateway's key"))
        if status < _ERROR:
            target.answered(time.monotonic())
            return
        error = await self._answerer.error(response)
        error.retry_after_s = _retry_after(response)
        if error.status not in _ELSEWHERE:  # llama.cpp says 500 to some faults of clients: its status is another then
            raise error
        if status in _AWAY:
            target.failed(time.monotonic())
        elif status == _FULL:
            target.breaker.full(time.monotonic(), error.retry_after_s)
        else:
            target.stumbled(time.monotonic())
        raise _Failed(error)


def _of_session(call: Call, prompt: Prompt) -> Prompt:
    """Decide by the session that the client names, where it does; else by the prompt's beginning."""
    named = call.exchange.request.header(SESSION_HEADER)
    return prompt if named is None else msgspec.structs.replace(prompt, affinity=zlib.crc32(named))


def _headers(call: Call, target: Target) -> list[tuple[bytes, bytes]]:
    passed_on = [header for header in call.exchange.request.headers if header[0] in _PASSED_ON]
    return [
        (b"content-type", b"application/json"),
        (b"x-request-id", call.request_id),
        *target.headers,
        *passed_on,
    ]


def _retry_after(response: UpstreamResponse) -> int | None:
    told = response.header(b"retry-after")
    return min(int(told), 60) if told is not None and told.isdigit() else None
