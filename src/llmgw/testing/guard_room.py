"""A gateway worker with a model that says what it is told to, a scripted judge, and policies."""

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from llmgw.config.gateway import GatewayConfig
from llmgw.config.logging import LogLevel
from llmgw.schema.demand import AuditEntry
from llmgw.schema.guard.rule import Rule
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_room import Answer, Room, a_replica, a_route, a_view, policies_of
from llmgw.testing.guard_conversations import Conversation
from llmgw.testing.guard_policies import policy
from llmgw.testing.scripted_judge import scripted_judge


class GuardRoom:
    """One worker, its model `tiny` on `engine`, and the judge `guard` on `judge`."""

    def __init__(self, room: Room, engine: FakeEngine, judge: FakeEngine, kind: str) -> None:
        self.room, self.engine, self.judge = room, engine, judge
        self.routes = (
            a_route(a_replica("r", engine.url, kind=kind)),
            a_route(a_replica("j", judge.url, slots=4), model="guard", role=Role.GUARD),
        )
        self._audit: list[AuditEntry] = []
        room.change(*self.routes)

    def rules(self, *rules: Rule, **fields: Any) -> None:
        """Give the worker one policy with these rules."""
        self.room.change(*self.routes, policies=policies_of(policy("p", *rules, **fields)))

    def says(self, *pieces: str, chat: bool = True) -> None:
        """Let the model answer in these pieces, streamed or not."""
        self.engine.script = [*(chunk(piece, chat=chat) for piece in pieces), chunk("", chat=chat, finish="stop"), DONE]
        whole = "".join(pieces)
        said = {"message": {"role": "assistant", "content": whole}} if chat else {"text": whole}
        kind = "chat.completion" if chat else "text_completion"
        answer = {"id": "x", "object": kind, "choices": [{"index": 0, "finish_reason": "stop", **said}]}
        self.engine.plain = lambda _body: json.dumps(answer).encode()

    async def converse(self, conversation: Conversation, *, chat: bool, stream: bool) -> Answer:
        """Have one of the scripted conversations."""
        self.says(*conversation.answer, chat=chat)
        asked = {"messages": conversation.messages} if chat else {"prompt": conversation.prompt}
        path = "/v1/chat/completions" if chat else "/v1/completions"
        return await self.room.ask(path, {"model": "tiny", "stream": stream, **asked})

    def audit(self) -> list[AuditEntry]:
        """Give all records so far."""
        self._audit += self.room.worker.audit.take()
        return self._audit

    def counted(self, name: str, **labels: str) -> float:
        """Add up the samples of a metric that have these labels."""
        samples = self.room.worker.guard_counters.samples()
        return sum(one.value for one in samples if one.name == name and labels.items() <= dict(one.labels).items())


@asynccontextmanager
async def guard_room(folder: Path, *, kind: str = "openai", **settings: Any) -> AsyncIterator[GuardRoom]:
    """Open a room; the model is run by an engine of `kind`, the gateway has these settings."""
    async with FakeEngine(model="tiny") as engine, FakeEngine(model="guard") as judge:
        judge.plain = scripted_judge
        socket = str(folder / "hub.sock")
        level = LogLevel.WARNING
        config = GatewayConfig(data_dir=str(folder), control_socket=socket, log_level=level, **settings)
        room = Room(a_view(), config)
        await room.open()
        yield GuardRoom(room, engine, judge, kind)
        await room.close()


DONE = b"data: [DONE]\n\n"


def chunk(text: str, *, chat: bool = True, finish: str | None = None, index: int = 0, **delta: Any) -> bytes:
    """Make one event of a stream."""
    said: dict[str, Any] = {"delta": {**({"content": text} if text else {}), **delta}} if chat else {"text": text}
    kind = "chat.completion.chunk" if chat else "text_completion"
    choice = {"index": index, "finish_reason": finish, **said}
    return b"data: " + json.dumps({"id": "x", "object": kind, "choices": [choice]}).encode() + b"\n\n"


def chunks(body: bytes) -> list[dict[str, Any]]:
    """Give the chunks of a stream, decoded."""
    return [json.loads(line[6:]) for line in body.decode().split("\n\n") if line.startswith("data: {")]


def said(body: bytes) -> str:
    """Give the text of an answer, plain or a stream."""
    bodies: Iterable[dict[str, Any]] = chunks(body) if body.startswith((b"data:", b":")) else [json.loads(body)]
    choices = [choice for one in bodies for choice in one.get("choices") or ()]
    return "".join(_text(choice) for choice in choices)


def finishes(body: bytes) -> list[str]:
    """Give why the choices of an answer ended."""
    bodies = chunks(body) if body.startswith((b"data:", b":")) else [json.loads(body)]
    choices = [choice for one in bodies for choice in one.get("choices") or ()]
    return [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]


def _text(choice: dict[str, Any]) -> str:
    inner = choice.get("delta") or choice.get("message") or {}
    return choice.get("text") or inner.get("content") or ""
