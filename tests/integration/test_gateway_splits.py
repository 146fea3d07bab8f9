"""Through the whole gateway, the same answer however client's and engine's bytes are split."""

import asyncio
import json
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from llmgw.testing.gateway_process import GENEROUS_S, Site
from llmgw.testing.gateway_room import SECRET, a_replica, a_route, a_view
from llmgw.testing.raw_http import Client, Line, Upstream

pytestmark = pytest.mark.asyncio(loop_scope="module")

AT_ONCE = 16
PAUSE_S = 0.002
"""Between two halves, so that the network does not join them again."""

CHUNKS = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}], "id": "c1"},
    {"choices": [{"index": 0, "delta": {"content": "größer"}, "finish_reason": None}], "id": "c1"},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "id": "c1"},
    {"choices": [], "id": "c1", "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
]
EVENTS = [b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in CHUNKS]
EVENTS = [b": hello\n\n", *EVENTS[:1], EVENTS[1].replace(b"\n", b"\r\n"), *EVENTS[2:], b"data: [DONE]\n\n"]
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM += b"".join(b"%x;a=b\r\n%b\r\n" % (len(event), event) for event in EVENTS) + b"0\r\nX-Trailer: y\r\n\r\n"
WHOLE = json.dumps({"choices": [{"message": {"content": "größer"}}], "usage": CHUNKS[-1]["usage"]}).encode()
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(WHOLE), WHOLE)


CUT_AT: set[int] = set()
"""Where the engine's answers were split."""


async def answer(line: Line) -> None:
    """Be an engine that splits its answer where the request's id says."""
    while True:
        head, body = await line.request()
        raw = STREAM if json.loads(body).get("stream") else PLAIN
        found = re.search(rb"x-request-id: at-(\d+)", head)
        at = int(found[1]) if found else len(raw)
        line.write(raw[:at])
        if at < len(raw):
            CUT_AT.add(at)
            await asyncio.sleep(PAUSE_S)
            line.write(raw[at:])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def port(tmp_path_factory) -> AsyncIterator[int]:
    engine = Upstream(answer)
    await engine.start()
    url = f"http://127.0.0.1:{engine.port}"
    routes = [a_route(a_replica(kind, url, kind=kind), model=kind) for kind in ("openai", "llamacpp")]
    async with Site(tmp_path_factory.mktemp("splits"), a_view(*routes)) as site:
        await site.gateway.knows("llamacpp")
        yield site.gateway.port
    await engine.stop()


def a_request(kind: str, *, stream: bool, usage: bool, chunked: bool = False, name: str = "") -> bytes:
    body = {"model": kind, "stream": stream, "messages": [{"role": "user", "content": "größer"}]}
    if usage:
        body["stream_options"] = {"include_usage": True}
    raw = json.dumps(body, ensure_ascii=False).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {SECRET}\r\n".encode()
    head += f"X-Request-Id: {name}\r\n".encode() if name else b""
    if not chunked:
        return head + b"Content-Length: %d\r\n\r\n%b" % (len(raw), raw)
    half = len(raw) // 2
    pieces = b"".join(b"%x;q\r\n%b\r\n" % (len(piece), piece) for piece in (raw[:half], raw[half:]))
    return head + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\nX-T: y\r\n\r\n"


async def exchange(client: Client, data: bytes, at: int) -> tuple[int, bytes]:
    await client.send(data[:at])
    if 0 < at < len(data):
        await asyncio.sleep(PAUSE_S)
    await client.send(data[at:])
    status, _, body = await asyncio.wait_for(client.answer(), GENEROUS_S)
    return status, body


async def at_every_position(port: int, requests: list[tuple[bytes, int]]) -> set[tuple[int, bytes]]:
    """Send each request split at its position, on a few connections that stay open; give the different answers."""
    answers: set[tuple[int, bytes]] = set()
    todo = iter(requests)

    async def work() -> None:
        client = await Client.connect(port)
        for data, at in todo:
            answers.add(await exchange(client, data, at))
        client.writer.close()

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return answers


SHAPES = [
    (kind, stream, usage)
    for kind in ("openai", "llamacpp")
    for stream, usage in ((False, False), (True, False), (True, True))
]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("kind", "stream", "usage"), SHAPES)
async def test_a_request_split_anywhere_gets_the_same_answer(port, kind, stream, usage, chunked):
    data = a_request(kind, stream=stream, usage=usage, chunked=chunked)
    whole = await at_every_position(port, [(data, len(data))])
    assert whole == await at_every_position(port, [(data, at) for at in range(1, len(data))])
    ((status, body),) = whole
    assert (status, "größer" in body.decode() or b"gr\\u00f6\\u00dfer" in body) == (200, True)


@pytest.mark.parametrize(("kind", "stream", "usage"), SHAPES)
async def test_an_engines_answer_split_anywhere_reaches_the_client_as_the_same(port, kind, stream, usage):
    raw = STREAM if stream or kind == "llamacpp" else PLAIN
    data = a_request(kind, stream=stream, usage=usage)
    whole = await at_every_position(port, [(data, len(data))])
    CUT_AT.clear()
    split = [(a_request(kind, stream=stream, usage=usage, name=f"at-{at}"), 0) for at in range(1, len(raw))]
    assert whole == await at_every_position(port, split)
    assert set(range(1, len(raw))) == CUT_AT
    ((_, body),) = whole
    if stream:
        assert body.endswith(b"data: [DONE]\n\n")
        assert (b'"usage"' in body) == usage
    else:
        assert json.loads(body)["usage"]["total_tokens"] == 5
