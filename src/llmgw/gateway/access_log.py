"""One line per request, without a word of prompts or answers.

Written apart from the other logs, in the same JSON form: rendering through the logging machinery would cost as much as
relaying the request. Lines are collected and written a few times a second.
"""

import asyncio
import contextlib
import os
from datetime import UTC, datetime

import msgspec

from llmgw.gateway.call import Call
from llmgw.schema.value import Value

FLUSH_S = 0.2

_ENCODE = msgspec.json.Encoder().encode


class RequestLine(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What is logged of a request. `key` is the public id of the key; times are seconds."""

    event: str
    level: str
    timestamp: datetime
    process: str
    request: str
    status: int
    seconds: float | None = None
    route: str | None = None
    model: str | None = None
    alias: str | None = None
    """What the client asked, where that is no model's own name."""
    key: str | None = None
    replica: str | None = None
    first_token_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    expected_tokens: int | None = None
    """Those of the prompt that should have been in the replica's cache."""
    completion_tokens: int | None = None
    retries: int = 0
    guard: str | None = None
    """What guardrails covered, as the header `x-llmgw-guard` has it."""
    code: str | None = None


class AccessLog:
    """Collects lines and writes them to a file descriptor (standard error)."""

    def __init__(self, *, fd: int = 2, process: str = "gateway") -> None:
        self._fd = fd
        self._process = process
        self._lines: list[bytes] = []

    def finished(self, call: Call, now: float) -> None:
        """Log a request that ended."""
        meter = call.meter
        first = call.first_token_at
        line = RequestLine(
            event="request.done",
            level="info",
            timestamp=datetime.now(UTC),
            process=self._process,
            request=call.request_id.decode(),
            status=call.status,
            seconds=round(now - call.started_at, 6),
            route=call.label or None,
            model=call.model,
            alias=call.alias,
            key=call.key,
            replica=call.replica,
            first_token_s=None if first is None else round(first - call.started_at, 6),
            prompt_tokens=meter.prompt if meter.known else None,
            cached_tokens=meter.cached if meter.known else None,
            expected_tokens=_expected(call),
            completion_tokens=meter.completion if meter.known else None,
            retries=call.retries,
            guard=call.coverage,
        )
        self._add(line)

    def refused(self, request: str, status: int, code: str) -> None:
        """Log a request that no handler saw; `code` says why."""
        self._add(
            RequestLine(
                event="request.refused",
                level="info",
                timestamp=datetime.now(UTC),
                process=self._process,
                request=request,
                status=status,
                code=code,
            )
        )

    def _add(self, line: RequestLine) -> None:
        if not self._lines:
            asyncio.get_running_loop().call_later(FLUSH_S, self.flush)
        self._lines.append(_ENCODE(line))

    def flush(self) -> None:
        """Write what was collected. A log that cannot be written must not stop requests."""
        lines, self._lines = self._lines, []
        if lines:
            with contextlib.suppress(OSError):
                os.write(self._fd, b"\n".join(lines) + b"\n")


def _expected(call: Call) -> int | None:
    place = call.place
    if place is None or place.believed is None or not call.meter.known:
        return None
    return round(place.believed * call.meter.prompt)
