"""What people ask, what they are answered, and every key: in no log at the most talkative level."""

import asyncio
import json
from contextlib import suppress

import openai
import pytest

from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine, Fault
from llmgw.testing.gateway_process import Site, until
from llmgw.testing.gateway_room import SECRET, a_replica, a_route, a_view
from llmgw.testing.raw_http import Client

CANARY = "canary-in-a-coal-mine"
WRONG_KEY = "lk_WRONGKEYwithAcanary"
ENGINE_KEY = "le_engineCanary"


async def raw(port: int, data: bytes) -> None:
    client = await Client.connect(port)
    await client.send(data)
    with suppress(asyncio.IncompleteReadError):
        await asyncio.wait_for(client.answer(), 5)
    client.writer.transport.abort()


async def ask_everything(client: openai.AsyncOpenAI, engine: FakeEngine) -> None:
    messages = [{"role": "user", "content": CANARY}]
    headers = {"x-request-id": "id-of-the-client", "cookie": CANARY, "x-canary": CANARY}
    for fault in (None, Fault.STATUS, Fault.DROP, Fault.DIE, Fault.MALFORMED, Fault.STREAM_ERROR):
        for stream in (False, True):
            engine.fail(fault, arg=500 if fault is Fault.STATUS else 2)
            with suppress(openai.APIError, json.JSONDecodeError):
                answer = await client.chat.completions.create(
                    model="tiny", messages=messages, stream=stream, user=CANARY, extra_headers=headers
                )
                if stream:
                    async for _ in answer:
                        pass
    with suppress(openai.APIError):
        await client.completions.create(model="tiny", prompt=CANARY)
    with suppress(openai.APIError):
        await client.embeddings.create(model="vectors", input=CANARY)
    with suppress(openai.APIError):
        await client.chat.completions.create(model=CANARY, messages=messages)


@pytest.mark.parametrize("level", ["debug", "info"])
async def test_neither_prompts_nor_answers_nor_keys_are_logged(tmp_path, level):
    async with FakeEngine(model=CANARY, key=ENGINE_KEY) as engine:  # its answers name it
        here, dead = (a_replica(n, u, key=ENGINE_KEY) for n, u in (("r1", engine.url), ("r2", "http://127.0.0.1:9")))
        view = a_view(a_route(here, dead), a_route(here, model="vectors", role=Role.EMBED))
        async with Site(tmp_path, view, more=f'log_level = "{level}"\n') as site:
            gateway = site.gateway
            await gateway.knows()
            async with gateway.client() as client:
                await ask_everything(client, engine)
            async with gateway.client(WRONG_KEY) as client:
                with pytest.raises(openai.AuthenticationError):
                    await client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": CANARY}])
            auth = f"Authorization: Bearer {SECRET}\r\n"
            for body in (f'{{"model": "{CANARY}', f'{{"model": "tiny", "max_tokens": "{CANARY}"}}', CANARY):
                head = f"POST /v1/chat/completions?key={CANARY} HTTP/1.1\r\nHost: g\r\n{auth}"
                await raw(gateway.port, f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            await raw(gateway.port, f"GET /{CANARY} HTTP/1.1\r\nHost: g\r\n{auth}\r\n".encode())
            await raw(gateway.port, f"GET / HTTP/1.1\r\nHost: g\r\n{auth}{CANARY} : bad\r\n\r\n".encode())
            await until(lambda: "bad_request" in gateway.log.read_text())
            assert await gateway.stop() == 0
            text = gateway.log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert {"request.done", "request.refused"} <= {line["event"] for line in lines}
    assert any(line.get("request") == "id-of-the-client" and line["status"] == 200 for line in lines)
    for secret in (CANARY, SECRET, WRONG_KEY, ENGINE_KEY):
        assert secret not in text
