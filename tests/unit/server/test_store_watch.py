"""A store watched through real HTTP: a Patroni that answers, one that froze, one that nobody lists any more."""

import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from llmgw.schema.store import PostgresWord, StoreRole
from llmgw.server.patroni import PatroniClient
from llmgw.server.store_watch import StoreWatch


class FakePatroni:
    """One member's REST. `hosts` are all members' names with their roots; a frozen one ends connections unanswered."""

    def __init__(self, name, role):
        self.name, self.role = name, role
        self.state, self.alive, self.frozen = "running", True, False
        self.root, self.listed = "", []

    async def answer(self, request):
        if self.frozen:
            request.transport.abort()
            return web.Response()
        if request.path == "/liveness":
            return web.Response(status=200 if self.alive else 503)
        if request.path == "/cluster":
            return web.json_response({"members": [one() for one in self.listed]})
        return web.json_response({"state": self.state, "role": self.role, "patroni": {"name": self.name}})

    def row(self):
        role = {"primary": "leader", "replica": "sync_standby"}[self.role]
        port = self.root.rpartition(":")[2]
        row = {"name": self.name, "role": role, "state": "running", "api_url": f"{self.root}/patroni"}
        return row | {"host": "127.0.0.1", "port": int(port)} | ({"lag": 7} if role != "leader" else {})


@asynccontextmanager
async def serving(*members):
    runners = []
    for member in members:
        app = web.Application()
        app.router.add_get("/{path:.*}", member.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        member.root = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        runners.append(runner)
    for member in members:
        member.listed = [other.row for other in members]
    try:
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


@pytest.fixture
async def pair():
    first, second = FakePatroni("db1", "primary"), FakePatroni("db2", "replica")
    async with serving(first, second):
        yield first, second


def watch(first, second, *, words=None):
    def ask(places):
        told = words or {}
        return {place: told.get(place) for place in places}

    seeds = (first.root, second.root)
    return StoreWatch(seeds=seeds, patroni=PatroniClient(deadline_s=5.0), words=ask)


def place(member):
    return ("127.0.0.1", member.root.rpartition(":")[2])


async def test_members_are_found_with_their_roles_and_lag(pair):
    first, second = pair
    words = {
        place(first): PostgresWord(in_recovery=False, timeline=2),
        place(second): PostgresWord(in_recovery=True, timeline=2),
    }
    watched = watch(first, second, words=words)
    await watched.look()
    assert [(one.name, one.role, one.lag, one.problem) for one in watched.state.members] == [
        ("db1", StoreRole.LEADER, 0, None),
        ("db2", StoreRole.SYNC_STANDBY, 7, None),
    ]
    assert watched.state.problem is None


async def test_a_frozen_primary_that_the_list_forgot_is_still_asked_and_told_of(pair):
    first, second = pair
    words = {
        place(first): PostgresWord(in_recovery=False, timeline=2),
        place(second): PostgresWord(in_recovery=True, timeline=2),
    }
    watched = watch(first, second, words=words)
    await watched.look()
    first.frozen, second.role = True, "primary"
    second.listed = [second.row]
    words[place(second)] = PostgresWord(in_recovery=False, timeline=3)
    await watched.look()
    assert watched.state.problem == "two primaries: db1 and db2"
    assert "a stale primary: it writes on timeline 2 while another one is on 3" in watched.state.members[0].problem


async def test_a_seed_that_nobody_ever_named_is_shown_by_its_host():
    watched = StoreWatch(seeds=("http://127.0.0.1:1",), patroni=PatroniClient(deadline_s=5.0), words=dict.fromkeys)
    await watched.look()
    (member,) = watched.state.members
    assert (member.name, member.state, member.lag) == ("127.0.0.1", "not answering", -1)
    assert watched.state.problem == "no primary: nothing can be written"


@pytest.mark.parametrize("body", ["<html>", json.dumps({"members": 7}), ""])
async def test_something_that_is_no_patroni_is_nobody(body):
    async def answer(_):
        return web.Response(text=body)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    root = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    client = PatroniClient(deadline_s=5.0)
    assert (await client.members(root), await client.word(root)) == (None, None)
    await runner.cleanup()
