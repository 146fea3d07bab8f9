"""Aliases in a worker, before real sockets."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import msgspec
import pytest

from llmgw.config.gateway import GatewayConfig
from llmgw.gateway.aliased import session_of
from llmgw.relay.request import Request
from llmgw.schema.alias import Alias, Share
from llmgw.schema.guard.policy import Attachment
from llmgw.schema.guard.rule import Action
from llmgw.schema.view import AliasesSection
from llmgw.testing.fake_engine import FakeEngine, Fault
from llmgw.testing.gateway_room import Room, a_replica, a_route, a_view, policies_of
from llmgw.testing.guard_policies import policy, rule

AT = datetime(2026, 1, 2, tzinfo=UTC)


def an_alias(*, fallbacks=(), **weights):
    shares = tuple(Share(model=model, weight=weight) for model, weight in weights.items())
    return Alias(name="chat", shares=shares, fallbacks=fallbacks, changed_at=AT)


class Bench:
    """Two models, each with an engine that takes no other name than its own."""

    def __init__(self, room, engines):
        self.room, self.engines = room, engines

    def set(self, alias, *, policies=None, old=True):
        routes = [a_route(a_replica(f"r-{name}", one.url), model=name) for name, one in self.engines.items()]
        if not old:
            routes[0] = a_route(model="old", unavailable="no node has room")
        view = a_view(*routes, version=2, policies=policies)
        self.room.view = msgspec.structs.replace(view, aliases=AliasesSection(version=1, aliases=(alias,)))
        self.room.worker.view.take_snapshot(self.room.view)

    def asked(self):
        return {name: len(engine.requests) for name, engine in self.engines.items()}


@pytest.fixture
async def bench(tmp_path) -> AsyncIterator[Bench]:
    async with FakeEngine(model="old") as old, FakeEngine(model="new") as new:
        config = GatewayConfig(data_dir=str(tmp_path), control_socket=str(tmp_path / "s"), log_level="warning")
        room = Room(a_view(), config)
        await room.open()
        yield Bench(room, {"old": old, "new": new})
        await room.close()


async def test_the_engine_is_asked_by_its_own_name_and_the_rest_of_the_request_stays(bench):
    bench.set(an_alias(new=1))
    for stream in (False, True):
        answer = await bench.room.chat(model="chat", seed=7, stream=stream)
        assert answer.status == 200
    for request in bench.engines["new"].requests:
        body = json.loads(request.body)
        assert (body["model"], body["seed"]) == ("new", 7)
    assert bench.asked() == {"old": 0, "new": 2}


async def test_a_conversation_stays_with_its_model_as_it_goes_on_and_conversations_are_shared(bench):
    bench.set(an_alias(old=1, new=1))
    first = []
    for number in range(24):
        messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": f"question {number}"}]
        before = bench.asked()
        await bench.room.ask("/v1/chat/completions", {"model": "chat", "messages": messages})
        where = [name for name, count in bench.asked().items() if count > before[name]]
        messages += [{"role": "assistant", "content": "well"}, {"role": "user", "content": "and then"}]
        before = bench.asked()
        await bench.room.ask("/v1/chat/completions", {"model": "chat", "messages": messages})
        assert where == [name for name, count in bench.asked().items() if count > before[name]]
        first += where
    assert 4 <= first.count("new") <= 20


async def test_where_a_model_cannot_answer_the_next_one_does(bench):
    bench.set(an_alias(old=1, fallbacks=("new",)), old=False)
    assert (await bench.room.chat(model="chat")).status == 200
    assert bench.asked() == {"old": 0, "new": 1}

    bench.set(an_alias(old=1, fallbacks=("new",)))
    bench.engines["old"].fail(Fault.STATUS, arg=503)
    assert (await bench.room.chat(model="chat")).status == 200
    assert bench.asked() == {"old": 1, "new": 2}


async def test_a_request_that_is_wrong_is_wrong_for_all_of_them(bench):
    bench.set(an_alias(old=1, fallbacks=("new",)))
    bench.engines["old"].fail(Fault.STATUS, arg=400)
    assert (await bench.room.chat(model="chat")).status == 400
    assert bench.asked() == {"old": 1, "new": 0}


async def test_aliases_are_listed_and_unknown_names_are_not_found(bench):
    bench.set(an_alias(old=1))
    listed = (await bench.room.ask("/v1/models")).json()["data"]
    assert [model["id"] for model in listed] == ["chat", "new", "old"]
    assert (await bench.room.ask("/v1/models/chat")).json()["created"] == int(AT.timestamp())
    assert (await bench.room.chat(model="nobody")).error["code"] == "model_not_found"
    bench.set(an_alias(gone=1))
    answer = await bench.room.chat(model="chat")
    assert (answer.status, answer.error["code"]) == (503, "model_unavailable")


@pytest.mark.parametrize("named", ["old", "new", "chat"])
async def test_an_alias_is_no_way_round_the_rules_of_what_may_answer(bench, named):
    blocks = policy("p", rule(pattern=("secret",), action=Action.BLOCK), attach=Attachment(models=(named,)))
    bench.set(an_alias(old=1, fallbacks=("new",)), policies=policies_of(blocks, judges={}))
    assert (await bench.room.chat(model="chat", text="a secret")).error["code"] == "content_policy_violation"
    assert (await bench.room.chat(model="chat", text="no harm")).status == 200


async def test_allowed_models_must_be_all_that_may_answer(bench):
    allows = policy("p", rule(allow_models=("old",), action=Action.BLOCK))
    bench.set(an_alias(old=1), policies=policies_of(allows, judges={}))
    assert (await bench.room.chat(model="chat")).status == 200
    bench.set(an_alias(old=1, fallbacks=("new",)), policies=policies_of(allows, judges={}, version=2))
    assert (await bench.room.chat(model="chat")).error["code"] == "content_policy_violation"


def a_request(body, **headers):
    told = tuple((name.replace("_", "-").encode(), value.encode()) for name, value in headers.items())
    return Request(method="POST", path="/v1/x", query="", headers=told, body=json.dumps(body).encode())


def test_a_session_is_its_name_else_its_opening():
    ask = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]}
    more = {"messages": [*ask["messages"], {"role": "assistant", "content": "b"}]}
    other = {"messages": [ask["messages"][0], {"role": "user", "content": "c"}]}
    assert session_of(a_request(ask)) == session_of(a_request(more)) != session_of(a_request(other))
    assert session_of(a_request(ask, x_session_id="1")) == session_of(a_request(other, x_session_id="1"))
    assert session_of(a_request({"prompt": "x"})) != session_of(a_request({"prompt": "y"}))
    assert session_of(a_request({})) == 0
    assert session_of(a_request({"messages": [1, {"role": 5}]})) != session_of(a_request({"messages": "wrong"}))
