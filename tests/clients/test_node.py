"""Clients for Node.js against a gateway as it is run: OpenAI's own, and the AI SDK."""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from llmgw.schema.guard.rule import Stage
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_process import Site, until
from llmgw.testing.gateway_room import SECRET, a_replica, a_route, a_view, policies_of
from llmgw.testing.guard_policies import policy, rule
from llmgw.testing.guard_room import DONE, chunk
from llmgw.testing.scripted_judge import WORD, proven_judge

SCRIPTS = Path(__file__).parent / "node"
MODULES = Path(__file__).parents[2] / ".cache" / "node" / "node_modules"
CLIENTS = ("openai", "ai-sdk")
REFUSED = ("llmgw_gateway_requests", "tiny", "chat", "400")
PIECES = ["words that harm nobody "] * 60

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js here: apt-get install nodejs npm"),
    pytest.mark.skipif(not MODULES.exists(), reason="the clients are not installed: make .cache/node/.ready"),
]


class Court:
    """A model and its judge behind a gateway, and clients that ask it."""

    def __init__(self, site: Site, engine: FakeEngine, judge: FakeEngine, folder: Path) -> None:
        self.site, self.engine, self.judge, self.folder = site, engine, judge, folder
        self.refused = 0.0
        """Requests that the gateway had refused when the test began."""

    def refusals(self) -> float:
        """Give how many it has refused so far."""
        return self.site.control.metrics().get(REFUSED, 0.0)

    async def ask(self, client: str, text: str = "hello", *, key: str = SECRET, retries: int = 3, **more) -> dict:
        """Let a client ask, in a process of its own; gives what it saw."""
        asked = {"model": "tiny", "messages": [{"role": "user", "content": text}], **more}
        base = f"http://127.0.0.1:{self.site.gateway.port}/v1"
        process = await asyncio.create_subprocess_exec(
            "node",
            str(self.folder / f"{client}.mjs"),
            env={**os.environ, "ASK": json.dumps(asked), "BASE_URL": base, "API_KEY": key, "RETRIES": str(retries)},
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            said, _ = await process.communicate()
        return json.loads(said)


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Court]:
    clients = folder / "clients"
    shutil.copytree(SCRIPTS, clients, ignore=shutil.ignore_patterns("node_modules"))
    (clients / "node_modules").symlink_to(MODULES)
    async with FakeEngine(model="tiny") as engine, FakeEngine(model="guard") as judge:
        judge.plain = proven_judge
        routes = (
            a_route(a_replica("r", engine.url)),
            a_route(a_replica("j", judge.url, slots=4), model="guard", role=Role.GUARD),
        )
        rules = (rule(name="in", stage=Stage.INPUT, timeout_s=5), rule(name="out", stage=Stage.OUTPUT, timeout_s=5))
        async with Site(folder, a_view(*routes, policies=policies_of(policy("p", *rules))), workers=1) as site:
            await site.gateway.knows()
            yield Court(site, engine, judge, clients)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one_court(tmp_path_factory) -> AsyncIterator[Court]:
    async with opened(tmp_path_factory.mktemp("node")) as court:
        yield court


@pytest.fixture
def court(one_court) -> Court:
    """The court, its model with nothing special to say."""
    one_court.engine.script = None
    one_court.refused = one_court.refusals()
    return one_court


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", CLIENTS)
async def test_an_answer_arrives_whole(court, client, stream):
    seen = await court.ask(client, stream=stream)
    assert "error" not in seen
    assert seen["text"].strip()
    assert seen["finish"] in {"stop", "length", "other"}


@pytest.mark.parametrize("stream", [False, True])
async def test_openais_client_gets_a_typed_error_for_a_block_and_does_not_try_again(court, stream):
    seen = await court.ask("openai", WORD, stream=stream)
    assert seen["error"] == {
        "kind": "BadRequestError",
        "status": 400,
        "code": "content_policy_violation",
        "type": "invalid_request_error",
    }
    assert await asked_once(court)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_ai_sdk_takes_a_block_for_final(court, stream):
    seen = await court.ask("ai-sdk", WORD, stream=stream)
    assert (seen["error"]["status"], seen["error"]["retryable"]) == (400, False)
    assert "p/in" in seen["error"]["words"]
    assert await asked_once(court)


async def asked_once(court: Court) -> bool:
    """Look whether the gateway was asked once since the test began, as it counts itself."""
    await until(lambda: court.refusals() > court.refused)
    return court.refusals() == court.refused + 1


@pytest.mark.parametrize(("client", "finish"), [("openai", "content_filter"), ("ai-sdk", "content-filter")])
async def test_a_block_in_mid_stream_is_a_filtered_end(court, client, finish):
    court.engine.script = [chunk(piece) for piece in [*PIECES, WORD, *PIECES]] + [chunk("", finish="stop"), DONE]
    seen = await court.ask(client, stream=True)
    assert "error" not in seen
    assert seen["finish"] == finish
    assert seen["text"].startswith(PIECES[0])
    assert WORD not in seen["text"]


async def test_tool_calls_arrive_as_the_engine_made_them(court):
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"it"}'}}
    frame = {"choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": [call]}, "finish_reason": None}]}
    court.engine.script = [
        b"data: " + json.dumps({"id": "x", "object": "chat.completion.chunk", **frame}).encode() + b"\n\n",
        chunk("", finish="tool_calls"),
        DONE,
    ]
    look = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    seen = await court.ask("openai", stream=True, tools=[look])
    assert seen["finish"] == "tool_calls"
    assert seen["tools"] == [call]


@pytest.mark.parametrize(
    ("more", "kind", "status"),
    [
        ({"key": "lk_wrong"}, "AuthenticationError", 401),
        ({"model": "nobody"}, "NotFoundError", 404),
        ({"n": 0}, "BadRequestError", 400),
    ],
)
async def test_what_is_wrong_is_an_error_of_its_kind(court, more, kind, status):
    seen = await court.ask("openai", **more)
    assert (seen["error"]["kind"], seen["error"]["status"]) == (kind, status)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_judge_that_is_gone_is_never_taken_for_safe(tmp_path, stream):
    async with opened(tmp_path) as court:
        await court.judge.stop()
        seen = await court.ask("openai", stream=stream, retries=0)
    assert seen["text"] == ""
    assert seen["error"]["status"] == 503
