"""Reranking, as clients of a worker see it."""

import json
from collections.abc import AsyncIterator

import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.core.guard.turns import Turn
from llmgw.gateway.surfaces import rerank
from llmgw.schema.guard.rule import Action
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_room import Room, a_replica, a_route, a_view, policies_of
from llmgw.testing.guard_policies import policy, rule

ASK = {"model": "order", "query": "rye bread", "documents": ["a cake", {"text": "rye bread recipes"}], "top_n": 2}


@pytest.fixture
async def here(tmp_path) -> AsyncIterator[tuple[Room, FakeEngine]]:
    async with FakeEngine(model="order") as engine:
        config = GatewayConfig(data_dir=str(tmp_path), control_socket=str(tmp_path / "s"), log_level="warning")
        routes = [a_route(a_replica("r", engine.url), model="order", role=Role.RERANK)]
        routes.append(a_route(a_replica("c", engine.url), model="chat"))
        room = Room(a_view(*routes), config)
        room.all = routes
        await room.open()
        yield room, engine
        await room.close()


async def test_request_and_answer_pass_as_they_are(here):
    room, engine = here
    answer = await room.ask("/v1/rerank", ASK)
    assert answer.status == 200
    assert [one["index"] for one in answer.json()["results"]] == [1, 0]
    assert json.loads(engine.requests[-1].body) == ASK


async def test_a_model_of_another_role_is_refused_and_named_for_what_it_is(here):
    room, _ = here
    answer = await room.ask("/v1/rerank", ASK | {"model": "chat"})
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "wrong_role", "model")
    assert "/v1/rerank" in (await room.ask("/v1/chat/completions", {"model": "order", "messages": []})).error["message"]


async def test_query_and_documents_are_under_the_rules(here):
    room, engine = here
    blocks = policy("p", rule(pattern=("secret",), action=Action.BLOCK))
    room.change(*room.all, policies=policies_of(blocks, judges={}))
    for wrong in ({"query": "a secret"}, {"documents": ["x", {"text": "secret"}]}):
        assert (await room.ask("/v1/rerank", ASK | wrong)).error["code"] == "content_policy_violation"
    assert engine.requests == []
    assert (await room.ask("/v1/rerank", ASK)).status == 200


@pytest.mark.parametrize(
    ("documents", "texts", "unreadable"),
    [(["a", {"text": "b"}], 3, 0), (["a", {"image": "b"}], 2, 1), ([{"text": "b", "title": "c"}], 1, 1), (None, 1, 0)],
)
def test_what_nobody_can_read_is_said(documents, texts, unreadable):
    found = rerank.conversation({"query": "q", "documents": documents})
    assert len([turn for turn in found.turns if isinstance(turn, Turn)]) == texts
    assert len(found.unreadable) == unreadable
