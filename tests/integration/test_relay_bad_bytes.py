"""Bytes from raw sockets against a running gateway and door: refused clearly, and the engine hears nothing."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from llmgw.link import frames
from llmgw.schema.door import DoorShard, DoorUpdate
from llmgw.schema.model import Role
from llmgw.testing.fake_engine import FakeEngine
from llmgw.testing.gateway_process import GENEROUS_S, Site, until
from llmgw.testing.gateway_room import SECRET, a_replica, a_route, a_view
from llmgw.testing.raw_http import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
GOOD = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}).encode()
CHUNKED = b"Transfer-Encoding: chunked"
WHOLE_CHUNK = b"%x\r\n%b\r\n" % (len(GOOD), GOOD)
LAST = b"0\r\n\r\n"


def start(target: bytes = CHAT.encode(), *, method: bytes = b"POST", version: bytes = b"HTTP/1.1") -> bytes:
    return b"%b %b %b\r\nHost: g\r\nAuthorization: Bearer %b\r\n" % (method, target, version, SECRET.encode())


def request(*lines: bytes, body: bytes = GOOD, **options: bytes) -> bytes:
    return start(**options) + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def chunked(framed: bytes) -> bytes:
    return request(CHUNKED, body=framed)


def length(value: bytes) -> bytes:
    return request(b"Content-Length: " + value)


N = b"%d" % len(GOOD)
SIZE = b"%x" % len(GOOD)
BAD, UNKNOWN_CODING, VERSION, TOO_LARGE = (
    (400, "bad_request"),
    (501, "not_implemented"),
    (505, "http_version"),
    (431, "headers_too_large"),
)
SMUGGLING = {
    # two framings, and lengths that readers take differently
    "length and coding": (request(b"Content-Length: " + N, CHUNKED, body=WHOLE_CHUNK + LAST), BAD),
    "coding and length": (request(CHUNKED, b"Content-Length: 4", body=WHOLE_CHUNK + LAST), BAD),
    "length twice": (request(b"Content-Length: " + N, b"Content-Length: " + N), BAD),
    "two lengths": (request(b"Content-Length: " + N, b"Content-Length: 5"), BAD),
    "list of lengths": (length(N + b", " + N), BAD),
    "plus": (length(b"+" + N), BAD),
    "minus": (length(b"-" + N), BAD),
    "hexadecimal length": (length(b"0x5"), BAD),
    "length with exponent": (length(b"1e2"), BAD),
    "length with a blank": (length(b"5 5"), BAD),
    "length with a NUL": (length(N + b"\x00"), BAD),
    "no length": (length(b""), BAD),
    "length beyond 64 bits": (length(b"9" * 30), BAD),
    "length that wraps around": (length(b"%d" % (2**64 + len(GOOD))), BAD),
    # codings
    "coding twice": (request(CHUNKED, CHUNKED, body=WHOLE_CHUNK + LAST), BAD),
    "chunked not last": (request(CHUNKED + b", identity", body=WHOLE_CHUNK + LAST), BAD),
    "chunked twice in one": (request(CHUNKED + b", chunked", body=WHOLE_CHUNK + LAST), BAD),
    "gzip before chunked": (request(b"Transfer-Encoding: gzip, chunked", body=WHOLE_CHUNK + LAST), UNKNOWN_CODING),
    "another coding": (request(b"Transfer-Encoding: xchunked", body=WHOLE_CHUNK + LAST), UNKNOWN_CODING),
    "identity": (request(b"Transfer-Encoding: identity"), UNKNOWN_CODING),
    "chunked with a vertical tab": (request(b"Transfer-Encoding: \x0bchunked", body=WHOLE_CHUNK + LAST), BAD),
    "coding with a blank before its colon": (request(b"Transfer-Encoding : chunked", body=WHOLE_CHUNK + LAST), BAD),
    "coding on a folded line": (request(b"Transfer-Encoding:\r\n chunked", body=WHOLE_CHUNK + LAST), BAD),
    "coding in HTTP/1.0": (request(CHUNKED, body=WHOLE_CHUNK + LAST, version=b"HTTP/1.0"), BAD),
    # chunks
    "extension with a bare CR": (chunked(SIZE + b";a\rb\r\n" + GOOD + b"\r\n" + LAST), BAD),
    "extension with a bare LF": (chunked(SIZE + b";a\nb\r\n" + GOOD + b"\r\n" + LAST), BAD),
    "extension with a NUL": (chunked(SIZE + b';a="\x00"\r\n' + GOOD + b"\r\n" + LAST), BAD),
    "size ended by LF": (chunked(SIZE + b"\n" + GOOD + b"\r\n" + LAST), BAD),
    "size with 0x": (chunked(b"0x" + SIZE + b"\r\n" + GOOD + b"\r\n" + LAST), BAD),
    "negative size": (chunked(b"-" + SIZE + b"\r\n" + GOOD + b"\r\n" + LAST), BAD),
    "size beyond 64 bits": (chunked(b"f" * 17 + b"\r\n" + GOOD + b"\r\n" + LAST), BAD),
    "size with a blank": (chunked(SIZE + b" \r\n" + GOOD + b"\r\n" + LAST), BAD),
    "no size": (chunked(b"\r\n" + GOOD + b"\r\n" + LAST), BAD),
    "too much data": (chunked(SIZE + b"\r\n" + GOOD + b"X\r\n" + LAST), BAD),
    "no line end after the data": (chunked(SIZE + b"\r\n" + GOOD + LAST), BAD),
    "LF after the data": (chunked(SIZE + b"\r\n" + GOOD + b"\n" + LAST), BAD),
    "bad trailer": (chunked(WHOLE_CHUNK + b"0\r\nX : y\r\n\r\n"), BAD),
    # lines
    "folded header": (request(b"X: a\r\n b", b"Content-Length: " + N), BAD),
    "folded with a tab": (request(b"X: a\r\n\tb", b"Content-Length: " + N), BAD),
    "NUL in a value": (request(b"X: a\x00b", b"Content-Length: " + N), BAD),
    "NUL in a name": (request(b"X\x00: a", b"Content-Length: " + N), BAD),
    "bare CR in a value": (request(b"X: a\rY: b", b"Content-Length: " + N), BAD),
    "bare LF in a value": (request(b"X: a\nY: b", b"Content-Length: " + N), BAD),
    "bare LF throughout": (request(b"Content-Length: " + N, body=b"").replace(b"\r\n", b"\n") + GOOD, BAD),
    "blank before a colon": (request(b"X : a", b"Content-Length: " + N), BAD),
    "blank before the first header": (b"POST / HTTP/1.1\r\n Host: g\r\n\r\n", BAD),
    "header without colon": (request(b"nonsense", b"Content-Length: " + N), BAD),
    "header without name": (request(b": a", b"Content-Length: " + N), BAD),
    "control character": (request(b"X: \x01", b"Content-Length: " + N), BAD),
    # targets, methods, versions
    "HTTP/0.9": (b"GET /v1/models\r\n\r\n", VERSION),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", VERSION),
    "HTTP/2.0": (request(b"Content-Length: " + N, version=b"HTTP/2.0"), VERSION),
    "HTTP/1.2": (request(b"Content-Length: " + N, version=b"HTTP/1.2"), VERSION),
    "HTTP/1.10": (request(b"Content-Length: " + N, version=b"HTTP/1.10"), BAD),
    "lower-case version": (request(b"Content-Length: " + N, version=b"http/1.1"), BAD),
    "no version number": (request(b"Content-Length: " + N, version=b"HTTP/"), BAD),
    "TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 100, BAD),
    "CONNECT": (request(method=b"CONNECT", target=b"g:443", body=b""), UNKNOWN_CODING),
    "TRACE": (request(method=b"TRACE", body=b""), UNKNOWN_CODING),
    "unknown method": (request(b"Content-Length: " + N, method=b"BREW"), BAD),
    "lower-case method": (request(b"Content-Length: " + N, method=b"post"), BAD),
    "absolute form of another scheme": (request(b"Content-Length: " + N, target=b"https://g" + CHAT.encode()), BAD),
    "fragment": (request(b"Content-Length: " + N, target=CHAT.encode() + b"#a"), BAD),
    "target with a blank": (request(b"Content-Length: " + N, target=b"/v1/chat /completions"), BAD),
    "target beyond ASCII": (request(b"Content-Length: " + N, target=b"/v1/\xff"), BAD),
    "no host": (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", BAD),
    "two hosts": (request(b"Host: h", b"Content-Length: " + N), BAD),
    "another expectation": (request(b"Expect: 200-ok", b"Content-Length: " + N), (417, "expectation_failed")),
    # sizes
    "header of 70,000 bytes": (request(b"X: " + b"a" * 70_000, b"Content-Length: " + N), TOO_LARGE),
    "300 headers": (request(*[b"X: y"] * 300, b"Content-Length: " + N), TOO_LARGE),
    "target of 70,000 bytes": (request(b"Content-Length: " + N, target=b"/" + b"a" * 70_000), TOO_LARGE),
    "head without an end": (start() + b"X" * 120_000, TOO_LARGE),
    "empty lines without an end": (b"\r\n" * 120_000, TOO_LARGE),
    "declared body of 100 MB": (length(b"100000000"), (413, "body_too_large")),
}  # fmt: skip

ACCEPTED = {
    "absolute form": request(b"Content-Length: " + N, target=b"http://elsewhere" + CHAT.encode()),
    "coding in capitals": request(b"Transfer-Encoding: CHUNKED", body=WHOLE_CHUNK + LAST),
    "extension and trailer": chunked(SIZE + b";a=b\r\n" + GOOD + b"\r\n0\r\nX-Trailer: y\r\n\r\n"),
    "empty lines before": b"\r\n\r\n" + request(b"Content-Length: " + N),
    "header that only looks like a framing": request(b"Transfer_Encoding: chunked", b"Content-Length: " + N),
    "upgrade that is not wanted": request(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: " + N),
}


class Place:
    """What all tests here use: a gateway and a door in front of one fake engine."""

    def __init__(self, site: Site, engine: FakeEngine, door_port: int) -> None:
        self.port = site.gateway.port
        self.site, self.engine, self.door_port = site, engine, door_port

    async def send(self, data: bytes, *, port: int | None = None) -> tuple[int, dict[str, str], bytes, bool]:
        """Send bytes on a fresh connection; gives the answer and whether the connection was closed after it."""
        client = await Client.connect(port or self.port)
        try:
            async with asyncio.timeout(GENEROUS_S):
                await client.send(data)
                status, headers, body = await client.answer()
                closed = headers.get("connection") == "close" and await client.rest() == b""
                return status, headers, body, closed
        finally:
            client.writer.transport.abort()

    async def ask(self, body: bytes, *, path: str = CHAT, method: str = "POST", more: str = "") -> "Told":
        raw = f"{method} {path} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {SECRET}\r\n{more}"
        raw += f"Content-Length: {len(body)}\r\n\r\n"
        return await self.told(raw.encode("latin-1") + body)

    async def told(self, data: bytes) -> "Told":
        status, headers, body, closed = await self.send(data)
        return Told(status, headers, body, closed=closed)


class Told:
    def __init__(self, status: int, headers: dict[str, str], body: bytes, *, closed: bool) -> None:
        self.status, self.headers, self.closed = status, headers, closed
        self.error = json.loads(body)["error"] if status >= 400 else {}

    @property
    def shaped(self) -> bool:
        """It is an error as OpenAI gives them, with an id."""
        return set(self.error) == {"message", "type", "param", "code"} and bool(self.headers["x-request-id"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    async with FakeEngine(model="tiny") as engine:
        chat, embed = (a_replica(name, engine.url) for name in ("r1", "r2"))
        view = a_view(a_route(chat), a_route(embed, model="vectors", role=Role.EMBED))
        door = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "llmgw", "door", "--config", str(door_config(folder))
        )
        try:
            async with Site(folder, view) as site:
                await site.gateway.knows()
                yield Place(site, engine, await door_ready(folder, engine))
        finally:
            door.kill()
            await door.wait()


def door_config(folder: Path) -> Path:
    config = folder / "door.toml"
    config.write_text(f'data_dir = "{folder}"\nlisten = "127.0.0.1:0"\nlog_format = "json"\n')
    return config


async def door_ready(folder: Path, engine: FakeEngine) -> int:
    told = folder / "door.json"
    await until(told.exists)
    _, writer = await asyncio.open_unix_connection(folder / "door.sock")
    shard = DoorShard(id="r1.0", model="tiny", endpoint=engine.url, key="k", paths=(CHAT,))
    writer.write(frames.pack(DoorUpdate(shards=(shard,), readings=())))
    await writer.drain()
    writer.close()
    return int(json.loads(told.read_text())["listen"].rsplit(":", 1)[1])


async def test_no_form_of_smuggling_reaches_the_engine_and_other_requests_go_on(place):
    before = place.engine.counts.started
    good = [place.ask(GOOD) for _ in range(20)]

    refused, served = await asyncio.gather(
        asyncio.gather(*(place.told(data) for data, _ in SMUGGLING.values())), asyncio.gather(*good)
    )
    for (name, (_, wanted)), told in zip(SMUGGLING.items(), refused, strict=True):
        assert (told.status, told.error["code"]) == wanted, name
        assert told.shaped, name
        assert told.closed, name
    assert [told.status for told in served] == [200] * 20
    assert place.engine.counts.started == before + 20


@pytest.mark.parametrize("name", ACCEPTED)
async def test_odd_forms_that_are_allowed_reach_the_engine_as_plain_ones(place, name):
    status, *_ = await place.send(ACCEPTED[name])
    assert status == 200
    seen = place.engine.requests[-1]
    assert (seen.path, seen.body) == (CHAT, GOOD)
    assert not {"transfer-encoding", "transfer_encoding", "upgrade", "x-trailer"} & seen.headers.keys()


async def test_the_door_refuses_the_same_bytes(place):
    before = place.engine.counts.started

    async def bad(data: bytes) -> tuple[int, str]:
        status, _, body, closed = await place.send(
            data.replace(CHAT.encode(), b"/shards/r1.0" + CHAT.encode()), port=place.door_port
        )
        assert closed
        return status, json.loads(body)["error"]["code"]

    answers = await asyncio.gather(*(bad(data) for data, _ in SMUGGLING.values()))
    assert answers == [told for _, told in SMUGGLING.values()]
    assert place.engine.counts.started == before


def deep(name: str, levels: int) -> bytes:
    return b'{"model":"tiny","%b":%b1%b}' % (name.encode(), b'{"a":' * levels, b"}" * levels)


def body_with(**fields: object) -> bytes:
    return json.dumps({"model": "tiny", "messages": [], **fields}).encode()


def raw_with(member: bytes) -> bytes:
    return b'{"model":"tiny","messages":[],' + member + b"}"


HUGE = b"9" * 5000
BAD_BODIES = {
    "empty": (b"", "empty_body", None),
    "blank": (b" \r\n", "invalid_json", None),
    "cut": (GOOD[:-3], "invalid_json", None),
    "single quotes": (b"{'model': 'tiny'}", "invalid_json", None),
    "comment": (b'{"model": "tiny" /* x */}', "invalid_json", None),
    "two documents": (GOOD + GOOD, "invalid_json", None),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD, "invalid_json", None),
    "UTF-16": (GOOD.decode().encode("utf-16"), "invalid_json", None),
    "binary": (bytes(range(256)), "invalid_json", None),
    "not UTF-8 in the prompt": (b'{"model":"tiny","messages":"\xff"}', "invalid_json", None),
    "not UTF-8 in a field of its own": (raw_with(b'"x":"\xc3("'), "invalid_json", None),
    "half a surrogate in the model": (b'{"model":"\\ud800"}', "invalid_json", None),
    "control character": (raw_with(b'"x":"\x00"'), "invalid_json", None),
    "NaN": (raw_with(b'"temperature":NaN'), "invalid_json", None),
    "array": (b"[]", "invalid_type", None),
    "null": (b"null", "invalid_type", None),
    "deep prompt": (deep("messages", 100_000), "invalid_json", None),
    "deep field": (deep("x", 100_000), "invalid_json", None),
    "deep and cut": (b'{"model":"tiny","x":' + b"[" * 100_000, "invalid_json", None),
    "no model": (b'{"messages":[]}', "missing_required_parameter", "model"),
    "model of a wrong type": (b'{"model":7}', "invalid_type", "model"),
    "model null": (b'{"model":null}', "invalid_type", "model"),
    "model twice": (b'{"model":"tiny","model":"tiny","messages":[]}', "repeated_parameter", "model"),
    "prompt twice": (b'{"model":"tiny","messages":[1],"messages":[]}', "repeated_parameter", "messages"),
    "stream of a wrong type": (body_with(stream="yes"), "invalid_type", "stream"),
    "options of a wrong type": (body_with(stream=True, stream_options=[]), "invalid_type", "stream_options"),
    "usage of a wrong type": (
        body_with(stream=True, stream_options={"include_usage": 1}), "invalid_type", "stream_options.include_usage",
    ),
    "max_tokens negative": (body_with(max_tokens=-1), "invalid_type", "max_tokens"),
    "max_tokens of a wrong type": (body_with(max_tokens="5"), "invalid_type", "max_tokens"),
    "max_tokens beyond 32 bits": (body_with(max_tokens=2**31), "invalid_type", "max_tokens"),
    "max_tokens of 5,000 digits": (raw_with(b'"max_tokens":' + HUGE), "invalid_type", "max_tokens"),
    "max_tokens NaN": (raw_with(b'"max_tokens":NaN'), "invalid_json", None),
    "max_completion_tokens fraction": (body_with(max_completion_tokens=1.5), "invalid_type", "max_completion_tokens"),
    "n zero": (body_with(n=0), "invalid_type", "n"),
    "n negative": (body_with(n=-3), "invalid_type", "n"),
    "n huge": (body_with(n=10**9), "invalid_type", "n"),
}  # fmt: skip


async def test_bad_bodies_name_the_thing_and_leave_connection_and_engine_alone(place):
    before = place.engine.counts.started
    for name, (body, code, field) in BAD_BODIES.items():
        told = await place.ask(body)
        assert (told.status, told.error["code"], told.error["param"]) == (400, code, field), name
        assert told.shaped, name
        assert not told.closed, name
    assert place.engine.counts.started == before


@pytest.mark.parametrize(("path", "field"), [(TEXT, "max_tokens"), (TEXT, "n"), (TEXT, "stream"), (EMBED, "model")])
async def test_the_other_routes_name_their_fields_too(place, path, field):
    before = place.engine.counts.started
    told = await place.ask(json.dumps({"model": "tiny", field: {"a": 1}}).encode(), path=path)
    assert (told.status, told.error["param"]) == (400, field)
    assert place.engine.counts.started == before


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [
        ("/", "GET", 404, "unknown_url"),
        ("/v1", "GET", 404, "unknown_url"),
        ("/v1/chat/completions/", "POST", 404, "unknown_url"),
        ("/v1//chat/completions", "POST", 404, "unknown_url"),
        ("/v1/chat/%63ompletions", "POST", 404, "unknown_url"),
        ("/v1/../v1/chat/completions", "POST", 404, "unknown_url"),
        ("/metrics", "GET", 404, "unknown_url"),
        ("/slots", "GET", 404, "unknown_url"),
        ("/v1/models/nope", "GET", 404, "model_not_found"),
        ("/v1/models", "DELETE", 405, "method_not_allowed"),
        (CHAT, "GET", 405, "method_not_allowed"),
        (CHAT, "PUT", 405, "method_not_allowed"),
        (EMBED, "OPTIONS", 405, "method_not_allowed"),
    ],
)
async def test_unknown_paths_and_methods_are_named(place, path, method, status, code):
    before = place.engine.counts.started
    told = await place.ask(b"" if method == "GET" else GOOD, path=path, method=method)
    assert (told.status, told.error["code"]) == (status, code)
    assert told.shaped
    assert method in told.error["message"] or path in told.error["message"] or "nope" in told.error["message"]
    assert place.engine.counts.started == before


@pytest.mark.parametrize(
    "header", ["Content-Type: text/plain", "Content-Type: multipart/form-data; boundary=x", "Content-Encoding: gzip"]
)
async def test_what_says_it_is_no_json_is_refused(place, header):
    before = place.engine.counts.started
    told = await place.ask(GOOD, more=header + "\r\n")
    assert (told.status, told.error["code"]) == (415, "unsupported_media_type")
    assert header.split(": ")[1] in told.error["message"]
    assert place.engine.counts.started == before


async def test_refusals_are_counted_apart_from_requests(place):
    def refused() -> float:
        return place.site.control.metrics().get(("llmgw_gateway_requests", "", "", "417"), 0)

    await asyncio.sleep(1.2)
    before = refused()
    await place.send(SMUGGLING["another expectation"][0])
    await until(lambda: refused() > before)
