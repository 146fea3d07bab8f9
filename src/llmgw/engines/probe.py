"""Asking an engine over HTTP: is it ready, does it move."""

import asyncio
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
import msgspec

from llmgw.engines.adapter import Started
from llmgw.engines.progress import Progress, read_progress
from llmgw.schema.model import Role
from llmgw.schema.value import Value

T = TypeVar("T")

_WORD = "Hello"


class Ready(Value, frozen=True, kw_only=True):
    """The engine serves the model. Slots and context per slot as it says itself; `None` when it does not say."""

    slots: int | None = None
    context: int | None = None


class NotReady(Value, frozen=True, kw_only=True):
    """The engine does not serve the model. `decisive`: and waiting will not change that."""

    reason: str
    decisive: bool


async def check_ready(
    session: aiohttp.ClientSession,
    started: Started,
    *,
    key: str,
    model: str,
    role: Role,
    deadline_s: float,
) -> Ready | NotReady:
    """Ask for health, for the served name with our key, and for one canary answer, all within `deadline_s`.

    Health alone proves little: a left-over engine on the same port answers it too, and so does one that can serve
    nobody.
    """
    engine = _Engine(session, started.endpoint, key)
    try:
        async with asyncio.timeout(deadline_s):
            return await _check_health(engine) or await _check_name(engine, model) or await _canary(engine, model, role)
    except TimeoutError:
        return NotReady(reason=f"no answer from {engine.last} within {deadline_s:g} s", decisive=False)
    except aiohttp.ClientError as error:
        return NotReady(reason=f"{engine.last} is not reachable: {error}", decisive=False)


async def progress(
    session: aiohttp.ClientSession, endpoint: str, key: str, *, deadline_s: float = 2.0
) -> Progress | None:
    """Read llama.cpp's counters; `None` when it does not answer in time, which a busy engine may not.

    At most every 2 s and by one reader: each reading keeps the engine from noticing that clients left.
    """
    engine = _Engine(session, endpoint, key)
    try:
        async with asyncio.timeout(deadline_s):
            status, body = await engine.get("/metrics")
    except (TimeoutError, aiohttp.ClientError):
        return None
    return read_progress(body.decode(errors="replace")) if status == HTTPStatus.OK else None


class _Engine:
    """One engine's HTTP side; `last` names what was asked last."""

    def __init__(self, session: aiohttp.ClientSession, endpoint: str, key: str) -> None:
        self._session = session
        self._endpoint = endpoint
        self._headers = {"Authorization": f"Bearer {key}"}
        self.last = "/"

    async def get(self, path: str, *, keyed: bool = True) -> tuple[int, bytes]:
        self.last = path
        headers = self._headers if keyed else {}
        async with self._session.get(self._endpoint + path, headers=headers, allow_redirects=False) as answer:
            return answer.status, await answer.read()

    async def post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        self.last = path
        url, data = self._endpoint + path, msgspec.json.encode(body)
        headers = {**self._headers, "Content-Type": "application/json"}
        async with self._session.post(url, data=data, headers=headers, allow_redirects=False) as answer:
            return answer.status, await answer.read()


async def _check_health(engine: _Engine) -> NotReady | None:
    status, _ = await engine.get("/health", keyed=False)
    if status == HTTPStatus.OK:
        return None
    return NotReady(reason=f"/health answers {status}", decisive=False)


class _Model(Value, frozen=True, kw_only=True):
    id: str


class _Models(Value, frozen=True, kw_only=True):
    data: tuple[_Model, ...]


async def _check_name(engine: _Engine, model: str) -> NotReady | None:
    status, body = await engine.get("/v1/models")
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return NotReady(reason="another engine answers on this port: it refuses our key", decisive=True)
    listed = _decode(body, _Models)
    if status != HTTPStatus.OK or listed is None:
        return NotReady(reason=f"/v1/models answers {status} without a list of models", decisive=False)
    names = [entry.id for entry in listed.data]
    if model in names:
        return None
    return NotReady(reason=f"the engine serves {', '.join(names) or 'nothing'}, not {model}", decisive=True)


class _Usage(Value, frozen=True, kw_only=True):
    completion_tokens: int


class _Generated(Value, frozen=True, kw_only=True):
    usage: _Usage


class _Embedding(Value, frozen=True, kw_only=True):
    embedding: tuple[float, ...]


class _Embedded(Value, frozen=True, kw_only=True):
    data: tuple[_Embedding, ...]


class _Scored(Value, frozen=True, kw_only=True):
    results: tuple[dict[str, Any], ...]


async def _canary(engine: _Engine, model: str, role: Role) -> Ready | NotReady:
    path, question = _question(model, role)
    status, body = await engine.post(path, question)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return NotReady(reason=f"canary: {path} answers 503", decisive=False)
    if status != HTTPStatus.OK:
        return NotReady(reason=f"canary: {path} answers {status}: {_told(body)}", decisive=True)
    if not _answered(body, role):
        return NotReady(reason=f"canary: {path} answers 200 with nothing in it", decisive=True)
    return await _ready(engine)


def _question(model: str, role: Role) -> tuple[str, dict[str, Any]]:
    """Give the cheapest request a role has."""
    short = {"model": model, "max_tokens": 1, "temperature": 0}
    match role:
        case Role.CHAT:
            return "/v1/chat/completions", {**short, "messages": [{"role": "user", "content": _WORD}]}
        case Role.GUARD:
            return "/v1/completions", {**short, "prompt": _WORD}
        case Role.EMBED:
            return "/v1/embeddings", {"model": model, "input": _WORD}
        case Role.RERANK:
            return "/v1/rerank", {"model": model, "query": _WORD, "documents": [_WORD]}


def _answered(body: bytes, role: Role) -> bool:
    match role:
        case Role.CHAT | Role.GUARD:
            generated = _decode(body, _Generated)
            return generated is not None and generated.usage.completion_tokens > 0
        case Role.EMBED:
            embedded = _decode(body, _Embedded)
            # A broken model's NaN comes as null, which does not decode.
            return embedded is not None and any(vector.embedding for vector in embedded.data)
        case Role.RERANK:
            scored = _decode(body, _Scored)
            return scored is not None and bool(scored.results)


class _Defaults(Value, frozen=True, kw_only=True):
    n_ctx: int


class _Props(Value, frozen=True, kw_only=True):
    total_slots: int
    default_generation_settings: _Defaults


async def _ready(engine: _Engine) -> Ready:
    """Read back what llama.cpp made of slots and context; other engines have no /props."""
    status, body = await engine.get("/props")
    props = _decode(body, _Props) if status == HTTPStatus.OK else None
    if props is None:
        return Ready()
    return Ready(slots=props.total_slots, context=props.default_generation_settings.n_ctx)


class _ErrorText(Value, frozen=True, kw_only=True):
    message: str


class _Error(Value, frozen=True, kw_only=True):
    error: _ErrorText


def _told(body: bytes) -> str:
    error = _decode(body, _Error)
    return error.error.message if error is not None else body[:200].decode(errors="replace")


def _decode(body: bytes, kind: type[T]) -> T | None:
    # One token may be half a character: not every engine's JSON is valid UTF-8 then.
    try:
        return msgspec.json.decode(body.decode(errors="replace"), type=kind)
    except msgspec.DecodeError:
        return None
