"""The way of a request through a worker: whose it is, what it asks, and what became of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import ModuleType

from llmgw.gateway.access_log import AccessLog
from llmgw.gateway.aliased import Aliased
from llmgw.gateway.ask import Ask, refuse_role
from llmgw.gateway.authenticate import Authenticator
from llmgw.gateway.call import CLIENT_LEFT, Call, RequestIds
from llmgw.gateway.decode import check_type
from llmgw.gateway.dispatch import Dispatcher
from llmgw.gateway.errors import ApiError, model_not_found
from llmgw.gateway.guard.guard import Guard
from llmgw.gateway.guard.moderator import Moderator
from llmgw.gateway.metrics import WorkerCounters
from llmgw.gateway.routes_view import LiveRoute, LiveView
from llmgw.gateway.surfaces import chat, completions, count_tokens, embeddings, messages, models, moderations, rerank
from llmgw.gateway.surfaces.translated import TranslatedExchange, TranslatedSurface
from llmgw.gateway.token_counter import TokenCounter
from llmgw.relay.errors import ClientGone
from llmgw.relay.exchange import Exchange
from llmgw.telemetry import log as logs

_GENERATING = {surface.PATH: surface for surface in (chat, completions, embeddings, rerank)}
_TRANSLATED: dict[str, TranslatedSurface] = {messages.PATH: messages, count_tokens.PATH: count_tokens}
_JSON = [(b"content-type", b"application/json")]
_HEALTH = "/healthz"
_READS = ("GET", "HEAD")

_Answer = Callable[[Call, Ask, LiveRoute], Awaitable[None]]

log = logs.get(__name__)


class Handler:
    """Answers each exchange, once. `any_role` switches the check of roles off, where they are not known."""

    def __init__(
        self,
        view: LiveView,
        authenticator: Authenticator,
        dispatcher: Dispatcher,
        *,
        guard: Guard,
        moderator: Moderator,
        token_counter: TokenCounter,
        counters: WorkerCounters,
        access_log: AccessLog | None,
        ids: RequestIds,
        any_role: bool = False,
    ) -> None:
        self._view = view
        self._authenticator = authenticator
        self._dispatcher = dispatcher
        self._guard = guard
        self._moderator = moderator
        self._token_counter = token_counter
        self._counters = counters
        self._access_log = access_log
        self._any_role = any_role
        self._ids = ids

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request. A client that leaves cancels the work, whatever it waits for."""
        call = Call(exchange, self._ids.id_for(exchange.request.header(b"x-request-id")))
        task = asyncio.current_task()
        assert task is not None, "handlers run in a task"  # noqa: S101 (tells mypy what the relay promises)
        exchange.on_gone(lambda: _cancel(task))
        try:
            await self._answer(call)
        except ApiError as error:
            call.fail(error)
        except (asyncio.CancelledError, ClientGone):
            call.status = CLIENT_LEFT
            if not exchange.gone:
                raise
        except Exception:  # a bug must cost one answer, and be seen
            log.exception("request.crashed", request=call.request_id.decode(), route=call.label)
            self._crashed(call)
        finally:
            self._finished(call)

    async def _answer(self, call: Call) -> None:
        request = call.exchange.request
        if request.path == _HEALTH:
            _only(request.method, _READS)
            call.respond(200, _JSON, b'{"status":"ok"}')
            return
        surface = _GENERATING.get(request.path) or _translated(call)
        if surface is None and request.path != moderations.PATH and not models.owns(request.path):
            raise _no_such_path(request.path)
        call.label = (surface or (moderations if request.path == moderations.PATH else models)).LABEL
        key = self._authenticator.check(request)
        if key is not None:
            call.key, call.project = key.id, key.project
        if request.path == moderations.PATH:
            await self._moderate(call)
            return
        if surface is None:
            _only(request.method, _READS)
            call.respond(200, _JSON, models.answer(self._view, request.path))
            return
        _only(request.method, ("POST",))
        check_type(request.header(b"content-type"), request.header(b"content-encoding"))
        if isinstance(call.exchange, TranslatedExchange):
            call.exchange.translate(_TRANSLATED[request.path].translate)
        await self._generate(call, surface)

    async def _moderate(self, call: Call) -> None:
        request = call.exchange.request
        _only(request.method, ("POST",))
        check_type(request.header(b"content-type"), request.header(b"content-encoding"))
        call.respond(200, _JSON, await self._moderator.answer(call, moderations.read(request.body)))

    async def _generate(self, call: Call, surface: ModuleType | TranslatedSurface) -> None:
        ask = surface.read(call.exchange.request.body)
        route = self._view.route(ask.model)
        answer: _Answer = self._dispatcher.run
        others: tuple[str, ...] = ()
        if route is None:
            aliased = self._aliased(call, ask.model)
            route, answer, others = aliased.first, aliased.run, aliased.others
            call.alias = ask.model
        call.model = route.model
        if not self._any_role:
            refuse_role(route, surface.ROLES, surface.PATH)
        if surface is count_tokens:
            tokens = await self._token_counter.count(call, route)
            call.respond(200, _JSON, count_tokens.answer(tokens))
            return
        rules = self._guard.rules(call, route.model, others if call.alias is None else (call.alias, *others))
        moderated = None
        if ask.moderation is not None:
            moderated = self._moderator.moderated(ask.moderation)
            rules = moderated.with_rules(rules)
        if rules is None:
            await answer(call, ask, route)
            return
        await self._guard.run(
            call, ask, route, surface=surface, rules=rules, others=others, moderated=moderated, answer=answer
        )

    def _aliased(self, call: Call, name: str) -> Aliased:
        alias = self._view.alias(name)
        if alias is None:
            raise model_not_found(name)
        return Aliased(alias, call.exchange.request, self._view, self._dispatcher)

    def _crashed(self, call: Call) -> None:
        call.status = 500
        if not call.exchange.started:
            call.fail(ApiError(500, "this gateway failed; its log says why", code="internal", kind="server_error"))

    def _finished(self, call: Call) -> None:
        now = call.ended_at or time.monotonic()
        if call.label:
            self._counters.finished(call, now)
            if self._access_log is not None:
                self._access_log.finished(call, now)


def _cancel(task: "asyncio.Task[object]") -> None:
    task.cancel()


def _translated(call: Call) -> TranslatedSurface | None:
    """Find a surface that is translated; from then on the call is answered in its words, errors included."""
    request = call.exchange.request
    surface = _TRANSLATED.get(request.path)
    if surface is not None:
        call.exchange = TranslatedExchange(call.exchange, surface.translator(request, call.request_id.decode()))
    return surface


def _only(method: str, allowed: tuple[str, ...]) -> None:
    if method not in allowed:
        raise ApiError(
            405,
            f"the method {method} is not allowed here; use {' or '.join(allowed)}",
            code="method_not_allowed",
            headers=((b"allow", ", ".join(allowed).encode()),),
        )


def _no_such_path(path: str) -> ApiError:
    known = ", ".join((*_GENERATING, *_TRANSLATED, moderations.PATH, models.PATH))
    return ApiError(404, f"there is nothing at {path[:200]!r}; this gateway serves {known}", code="unknown_url")
