"""Moderation: a judge asked outright, without a policy between. Whatever is unclear is an error here too."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from llmgw.core.guard.input_scan import Court
from llmgw.core.guard.judges.reply import JudgeReply
from llmgw.core.guard.moderated import Moderated
from llmgw.core.guard.moderation import moderation_result
from llmgw.core.guard.outlook import View, outlook
from llmgw.core.guard.refusal import RETRY_AFTER_S, UNAVAILABLE
from llmgw.core.guard.turns import Conversation
from llmgw.gateway.call import Call
from llmgw.gateway.errors import ApiError, model_not_found
from llmgw.gateway.guard.policies import LivePolicies
from llmgw.gateway.judging import Judging
from llmgw.gateway.routes_view import LiveView
from llmgw.gateway.surfaces.moderations import ModerationAsk
from llmgw.schema.guard.rule import Action, FailureKind, Rule
from llmgw.schema.guard.verdict import Verdict, VerdictState
from llmgw.schema.model import Role
from llmgw.schema.openai.moderation import ModerationWish

TIMEOUT_S = 60.0
"""For one window of a text. Nobody holds a conversation back for it, so it may take longer than rules wait."""
AT_ONCE = 4
"""Windows of one request that are judged at once."""

_ENCODE = msgspec.json.Encoder().encode
_BUSY = frozenset({FailureKind.OVERLOADED, FailureKind.TIMEOUT})


class Moderator:
    """One worker's moderation. `heard` is told each judge's reply."""

    def __init__(
        self,
        view: LiveView,
        policies: LivePolicies,
        judging: Judging,
        heard: Callable[[Call, str, JudgeReply], None],
    ) -> None:
        self._view = view
        self._policies = policies
        self._judging = judging
        self._heard = heard

    async def answer(self, call: Call, ask: ModerationAsk) -> bytes:
        """Give the body of the answer. Raises `ApiError`."""
        judge = self._judge(ask.model)
        call.model = judge
        room = asyncio.Semaphore(AT_ONCE)
        results = await asyncio.gather(*(self._result(call, judge, one, room) for one in ask.inputs))
        return _ENCODE({"id": f"modr-{call.request_id.decode()}", "model": judge, "results": results})

    def moderated(self, wish: ModerationWish) -> Moderated:
        """Give what a chat's own moderation is made of. Raises `ApiError` for a model that is no judge."""
        try:
            self._judge(wish.model)
        except ApiError as error:
            error.param = "moderation.model"
            raise
        return Moderated(wish)

    def _judge(self, named: str | None) -> str:
        judge = named or next(iter(self._policies.judges), None)
        if judge is None:
            raise ApiError(
                404,
                "no policy asks a judge, so there is none to ask; name one in 'model', or write a policy",
                code="no_judge",
                param="model",
            )
        route = self._view.route(judge)
        if route is None:
            raise model_not_found(judge)
        if route.role is not Role.GUARD or self._policies.family(judge) is None:
            raise ApiError(
                400,
                f"the model {judge!r} is no judge that policies ask",
                code="wrong_role",
                param="model",
            )
        return judge

    async def _result(self, call: Call, judge: str, asked: Conversation, room: asyncio.Semaphore) -> dict[str, Any]:
        court = Court(judge, None, None, TIMEOUT_S)
        seen = outlook(asked.turns, self._judging.room(court))
        if seen.unseen:
            raise ApiError(
                400,
                "'input' is longer than a judge can be shown",
                code="unscannable_content",
                param="input",
            )
        verdicts = await asyncio.gather(*(self._verdict(call, court, view, room) for view in seen.views))
        return moderation_result(verdicts)

    async def _verdict(self, call: Call, court: Court, view: View, room: asyncio.Semaphore) -> Verdict:
        async with room:
            reply = await self._judging.ask(court, view)
        self._heard(call, court.judge, reply)
        verdict = reply.verdict(Rule(name="moderation", judge=court.judge, action=Action.FLAG))
        if verdict.state is VerdictState.ERROR:
            busy = verdict.failure in _BUSY
            raise ApiError(
                503,
                f"the judge {court.judge!r} gave no verdict: {verdict.detail}",
                code=UNAVAILABLE,
                kind="server_error",
                retry_after_s=RETRY_AFTER_S if busy else None,
                headers=((b"x-should-retry", b"true" if busy else b"false"),),
            )
        return verdict
