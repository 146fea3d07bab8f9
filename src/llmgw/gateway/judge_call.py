"""Asking a judge: one prompt to one of its replicas, within a deadline, and what kind of failure it was if it fails.

The judge's slots are shared like any model's. A question that is given up is given up at once; its slot counts as busy
until the engine let go of it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from llmgw.core.guard.judges.adapter import JudgeAdapter, JudgePrompt, Unclear
from llmgw.core.guard.judges.answer import judge_answer
from llmgw.core.guard.judges.reply import JudgeReply, NoAnswer
from llmgw.core.guard.outlook import View
from llmgw.core.routing import Prompt
from llmgw.gateway.admit import Admission
from llmgw.gateway.errors import ApiError
from llmgw.gateway.linger import LINGER_S
from llmgw.gateway.routes_view import LiveRoute, LiveView, Target
from llmgw.relay.errors import UpstreamError, UpstreamTimeout, UpstreamUnreachable
from llmgw.relay.upstream import UpstreamPool
from llmgw.schema.guard.rule import FailureKind
from llmgw.schema.model import Role
from llmgw.schema.openai.usage import Usage, WithUsage

MAX_ANSWER_BYTES = 256 * 1024
"""More than any answer of a few tokens with their probabilities."""
TRIES = 2
"""Replicas asked in turn where one cannot be reached."""

_ENCODE = msgspec.json.Encoder().encode
_WITH_USAGE = msgspec.json.Decoder(WithUsage).decode
_OK, _TOO_MANY, _LOADING, _FAULT = 200, 429, 503, 500
_STRANGER = frozenset({401, 403})
_HEADERS = ((b"content-type", b"application/json"),)


class JudgeFailed(Exception):
    """A replica gave no answer. `answer` says why, `elsewhere` that another one may give one."""

    def __init__(self, failure: FailureKind, detail: str, *, elsewhere: bool = False) -> None:
        super().__init__(detail)
        self.answer = NoAnswer(failure, detail)
        self.elsewhere = elsewhere


class JudgeCaller:
    """One worker's way to judges. `sick` names replicas that are left out: their canaries fail."""

    def __init__(
        self,
        view: LiveView,
        admission: Admission,
        pool: UpstreamPool,
        *,
        sick: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self._view = view
        self._sick = sick
        self._asked: Counter[str] = Counter()
        self._admission = admission
        self._pool = pool
        self._open: set[asyncio.Task[tuple[bytes, Target]]] = set()

    def context(self, judge: str) -> int | None:
        """Give the tokens that every replica of a judge has room for; `None`: not known."""
        route = self._view.route(judge)
        known = [target.context for target in route.targets if target.context is not None] if route else []
        return min(known, default=None)

    async def ask(self, judge: str, adapter: JudgeAdapter, view: View, *, timeout_s: float) -> JudgeReply:
        """Ask about a view. Raises nothing but cancellation: whatever goes wrong is a failure of its kind."""
        started = time.monotonic()
        route = self._view.route(judge)
        if route is None:
            return _reply(NoAnswer(FailureKind.MISCONFIGURED, f"no model {judge} is in the catalog"), started)
        if route.role is not Role.GUARD:
            return _reply(NoAnswer(FailureKind.MISCONFIGURED, f"the model {judge} is not in role guard"), started)
        self._asked[judge] += 1
        try:
            body, target = await self._body(route, adapter.prompt(view), timeout_s)
        finally:
            self._asked[judge] -= 1
        if isinstance(body, NoAnswer):
            return _reply(body, started)
        version = f"{adapter.family}/{target.id}" if target is not None else None
        return read_reply(adapter, body, time.monotonic() - started, version)

    def waiting(self, judge: str) -> int:
        """Count the questions to a judge that have no answer yet."""
        return self._asked[judge]

    def close(self) -> None:
        """Give up all questions."""
        for task in self._open:
            task.cancel()

    async def _body(
        self, route: LiveRoute, prompt: JudgePrompt, timeout_s: float
    ) -> tuple[bytes | NoAnswer, Target | None]:
        """Give the bytes of an answer, or why there are none, when the time is over at the latest."""
        deadline = time.monotonic() + timeout_s
        asking = _Asking()
        # A task of its own: it holds the slot until the engine let go, long after the question was given up.
        task = asyncio.ensure_future(self._ask_in_turn(route, prompt, deadline, asking))
        self._open.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=timeout_s)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            task.cancel()
            # Whoever never got to a replica was kept out by others' questions.
            kind = FailureKind.TIMEOUT if asking.reached else FailureKind.OVERLOADED
            words = "it did not answer" if asking.reached else "it had no free slot"
            return NoAnswer(kind, f"{words} within {timeout_s:g} s"), None
        try:
            return task.result()
        except JudgeFailed as failed:
            return failed.answer, None

    async def _ask_in_turn(
        self, route: LiveRoute, prompt: JudgePrompt, deadline: float, asking: "_Asking"
    ) -> tuple[bytes, Target]:
        tried = sick = self._sick()
        while True:
            try:
                place = await self._admission.enter(self._admission.now(route), Prompt(), tried=tried)
            except ApiError as error:
                raise JudgeFailed(_kind_of(error), str(error)) from error
            with place:
                target = place.target
                asking.reached = True
                try:
                    return await put(self._pool, target, prompt, timeout_s=deadline - time.monotonic()), target
                except JudgeFailed as failed:
                    failure = failed
            tried |= {target.id}
            untried = any(other.id not in tried for other in self._admission.now(route).targets)
            if not failure.elsewhere or not untried or len(tried - sick) >= TRIES:
                raise failure

    def _ended(self, task: "asyncio.Task[tuple[bytes, Target]]") -> None:
        self._open.discard(task)
        if not task.cancelled():
            task.exception()  # read by whoever asked, or given up


async def put(
    pool: UpstreamPool, target: Target, prompt: JudgePrompt, *, timeout_s: float, lingers: bool = True
) -> bytes:
    """Put a question to one replica and give its answer. Raises `JudgeFailed`.

    With `lingers` a question that is given up ends once the engine let go of it: its slot is taken until then.
    """
    try:
        response = await pool.request(
            target.endpoint,
            method="POST",
            path=target.prefix + prompt.path,
            headers=(*_HEADERS, *target.headers),
            body=_ENCODE({"model": target.model, **prompt.body}),
            first_byte_timeout_s=max(timeout_s, 0.001),
            linger_s=LINGER_S if lingers and target.slots is not None else 0.0,
        )
        try:
            body = await response.read(MAX_ANSWER_BYTES)
        finally:
            response.close()
            await response.left()
    except UpstreamTimeout as error:
        raise JudgeFailed(FailureKind.TIMEOUT, "it did not answer in time") from error
    except UpstreamUnreachable as error:
        target.failed(time.monotonic())
        raise JudgeFailed(FailureKind.UNREACHABLE, "its engine takes no connections", elsewhere=True) from error
    except UpstreamError as error:
        raise JudgeFailed(FailureKind.UNREACHABLE, "its engine broke off its answer", elsewhere=True) from error
    _refuse(response.status, body, target)
    return body


class _Asking:
    """How far a question came."""

    reached = False


def _refuse(status: int, body: bytes, target: Target) -> None:
    """Raise for answers that are none."""
    if status == _OK:
        target.answered(time.monotonic())
        return
    if status in _STRANGER:
        target.failed(time.monotonic())
        raise JudgeFailed(FailureKind.UNREACHABLE, "its engine does not accept this gateway's key", elsewhere=True)
    if status == _TOO_MANY:
        raise JudgeFailed(FailureKind.OVERLOADED, "its engine has no room", elsewhere=True)
    if status == _LOADING:
        raise JudgeFailed(FailureKind.UNREACHABLE, "its engine is not ready", elsewhere=True)
    if status >= _FAULT:
        raise JudgeFailed(FailureKind.UNREACHABLE, f"its engine failed with status {status}", elsewhere=True)
    words = "the conversation does not fit its context" if b"exceed_context" in body else f"it refuses with {status}"
    raise JudgeFailed(FailureKind.MISCONFIGURED, words)


def _kind_of(error: ApiError) -> FailureKind:
    return FailureKind.OVERLOADED if error.status == _TOO_MANY else FailureKind.UNREACHABLE


def read_reply(adapter: JudgeAdapter, body: bytes, seconds: float, version: str | None) -> JudgeReply:
    """Read an engine's answer to a judge's prompt, whatever it is."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return JudgeReply(Unclear("its answer is no JSON"), seconds, version)
    answer = judge_answer(decoded)
    if answer is None:
        return JudgeReply(Unclear("its answer has no text"), seconds, version)
    usage = _usage(body)
    return JudgeReply(
        adapter.read(answer),
        seconds,
        version,
        empty=not answer.text.strip(),
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        completion_tokens=None if usage is None else usage.completion_tokens,
    )


def _usage(body: bytes) -> Usage | None:
    try:
        return _WITH_USAGE(body).usage
    except msgspec.DecodeError:
        return None


def _reply(answer: NoAnswer, started: float) -> JudgeReply:
    return JudgeReply(answer, time.monotonic() - started)
