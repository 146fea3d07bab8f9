"""A gateway worker with a chat model and a judge on fake engines, and policies."""

import json
from collections.abc import AsyncIterator

import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_room import Room, a_replica, a_route, a_view, policies_of
from llmgw.testing.guard_policies import policy
from llmgw.testing.scripted_judge import scripted_judge


class Court:
    """A room under guard."""

    def __init__(self, room, engine, judge, routes):
        self.room, self.engine, self.judge = room, engine, judge
        self.routes = routes

    def rules(self, *rules, **fields):
        """Give the worker one policy with these rules."""
        self.room.change(*self.routes, policies=policies_of(policy("p", *rules, **fields)))

    def says(self, *pieces, chat=True, finish="stop"):
        """Let the model answer in these pieces, streamed or not."""
        self.engine.script = [chunk(piece, chat=chat) for piece in pieces]
        self.engine.script += [chunk("", chat=chat, finish=finish), b"data: [DONE]\n\n"]
        whole = "".join(pieces)
        said = {"message": {"role": "assistant", "content": whole}} if chat else {"text": whole}
        choice = {"index": 0, "finish_reason": finish, **said}
        kind = "chat.completion" if chat else "text_completion"
        self.engine.plain = lambda _body: json.dumps({"id": "x", "object": kind, "choices": [choice]}).encode()


def chunk(text, *, chat=True, finish=None):
    """Make one event of a stream."""
    said = {"delta": {"content": text} if text else {}} if chat else {"text": text}
    kind = "chat.completion.chunk" if chat else "text_completion"
    choice = {"index": 0, "finish_reason": finish, **said}
    return b"data: " + json.dumps({"id": "x", "object": kind, "choices": [choice]}).encode() + b"\n\n"


def deltas(body):
    """Give the chunks of a stream, decoded."""
    return [json.loads(line[6:]) for line in body.decode().split("\n\n") if line.startswith("data: {")]


def streamed_text(body):
    """Put a stream's text together."""
    choices = [choice for one in deltas(body) for choice in one.get("choices", ())]
    return "".join(choice.get("text") or (choice.get("delta") or {}).get("content") or "" for choice in choices)


def finishes(body):
    """Give the finish reasons of a stream."""
    choices = [choice for one in deltas(body) for choice in one.get("choices", ())]
    return [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]


@pytest.fixture
async def court(tmp_path) -> AsyncIterator[Court]:
    async with FakeEngine(model="tiny") as engine, FakeEngine(model="guard") as judge:
        judge.plain = scripted_judge
        routes = (
            a_route(a_replica("r", engine.url)),
            a_route(a_replica("j", judge.url, slots=4), model="guard", role=Role.GUARD),
        )
        config = GatewayConfig(data_dir=str(tmp_path), control_socket=str(tmp_path / "hub.sock"), log_level="warning")
        room = Room(a_view(*routes), config)
        await room.open()
        yield Court(room, engine, judge, routes)
        await room.close()
