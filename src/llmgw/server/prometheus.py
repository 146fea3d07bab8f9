"""Asking a Prometheus: with a deadline, bounded, without redirects. Its troubles are told in words."""

import asyncio
import math
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec

from llmgw.config.server import ServerConfig
from llmgw.schema.errors import InvalidInput
from llmgw.schema.value import Value
from llmgw.server.trusted import trusted, unreadable

DEADLINE_S = 2.0
"""Of one query, whatever it waits for."""
MOST_BYTES = 8 * 1024 * 1024
"""An hour of a node with 64 models is 0.8 MB."""
MOST_AT_ONCE = 4
"""Queries at one time; more would only wait in Prometheus."""
MOST_WORDS = 200
"""Characters of its own words that are repeated."""


class PrometheusTrouble(Exception):
    """It did not give what was asked. The text says which Prometheus and why, and holds no secret."""


class Line(Value, frozen=True, kw_only=True):
    """One series of an answer: unix seconds and values; what is no number is left out."""

    labels: dict[str, str]
    values: dict[int, float]


class Prometheus:
    """One Prometheus at an address."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        context: ssl.SSLContext | None = None,
        deadline_s: float = DEADLINE_S,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._url = f"{url.rstrip('/')}/api/v1/query_range"
        self._token = token
        self._context = context
        self._deadline_s = deadline_s
        self._most_bytes = most_bytes
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self.name = f"Prometheus at {urlsplit(url).netloc}"
        """For people."""

    async def range(self, query: str, *, start: int, end: int, step_s: int) -> tuple[Line, ...]:
        """Evaluate `query` at each step from `start` to `end`, unix seconds. Raises `PrometheusTrouble`."""
        form = {"query": query, "start": str(start), "end": str(end), "step": str(step_s)}
        try:
            async with asyncio.timeout(self._deadline_s), self._turns:
                status, raw = await self._ask(form)
        except TimeoutError as error:
            raise self._trouble(f"did not answer within {self._deadline_s:g} s") from error
        except aiohttp.ClientConnectorCertificateError as error:
            words = f"has a certificate that is not trusted: {_short(str(error.certificate_error))}"
            raise self._trouble(f"{words} (prometheus_ca_file names others)") from error
        except aiohttp.ClientConnectorError as error:
            raise self._trouble(
                f"is not reachable: {_short(error.os_error.strerror or str(error.os_error))}"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._trouble(f"broke off: {_short(str(error)) or type(error).__name__}") from error
        if status != HTTPStatus.OK:
            raise self._trouble(_refusal(status, raw, token=self._token is not None))
        return self._lines(raw)

    async def _ask(self, form: Mapping[str, str]) -> tuple[int, bytes]:
        headers = {"accept-encoding": "identity"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        # A session for each query: nothing to keep, to close, or to find broken after its restart.
        connector = aiohttp.TCPConnector(force_close=True, ssl=self._context or True)
        async with (
            aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session,
            session.post(self._url, data=form, headers=headers, allow_redirects=False) as answer,
        ):
            raw = bytearray()
            async for piece in answer.content.iter_any():
                raw += piece
                if len(raw) > self._most_bytes:
                    raise self._trouble(f"answered with more than {self._most_bytes} bytes")
            return answer.status, bytes(raw)

    def _lines(self, raw: bytes) -> tuple[Line, ...]:
        try:
            answer = msgspec.json.decode(raw, type=_Answer)
            return tuple(Line(labels=one.metric, values=_numbers(one.values)) for one in answer.data.result)
        except (msgspec.DecodeError, ValueError) as error:
            raise self._trouble("answered something else than Prometheus does: is prometheus_url right?") from error

    def _trouble(self, words: str) -> PrometheusTrouble:
        return PrometheusTrouble(f"{self.name} {words}")


def open_prometheus(config: ServerConfig) -> Prometheus | None:
    """Give the Prometheus a configuration names, reading its files. Raises `InvalidInput` naming the key."""
    if config.prometheus_url is None:
        return None
    return Prometheus(
        config.prometheus_url,
        token=_token(config.prometheus_token_file),
        context=trusted(config.prometheus_ca_file, field="prometheus_ca_file"),
    )


def _token(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable("prometheus_token_file", path, error) from error
    if not token or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"prometheus_token_file: {path} does not hold one token", hint="one line", field="prometheus_token_file"
        )
    return token


def _refusal(status: int, raw: bytes, *, token: bool) -> str:
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        done = (
            "does not take the token in prometheus_token_file" if token else "asks for a token (prometheus_token_file)"
        )
        return f"{done}: HTTP {status}"
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"answers that it is elsewhere (HTTP {status}): prometheus_url must name where it is"
    try:
        words = msgspec.json.decode(raw, type=_Refusal).error
    except msgspec.DecodeError:
        words = ""
    return f"answered HTTP {status}: {_short(words)}" if words else f"answered HTTP {status}"


def _numbers(pairs: tuple[tuple[float, str], ...]) -> dict[int, float]:
    found = {round(at): float(text) for at, text in pairs}
    return {at: value for at, value in found.items() if math.isfinite(value)}


def _short(words: str) -> str:
    return " ".join(words.split())[:MOST_WORDS]


class _Series(Value, frozen=True, kw_only=True):
    metric: dict[str, str]
    values: tuple[tuple[float, str], ...]


class _Matrix(Value, frozen=True, kw_only=True):
    result: tuple[_Series, ...]


class _Answer(Value, frozen=True, kw_only=True):
    data: _Matrix


class _Refusal(Value, frozen=True, kw_only=True):
    error: str
