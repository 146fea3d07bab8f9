"""Bad input at the admin API, from the socket up: one shape of error that names the thing, and nothing changed."""

import http.client
import json
import socket
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from llmgw.testing.server_process import ServerProcess

SHAPE = {"code", "message", "hint", "field", "allowed"}
OK = {"name": "new", "source": "/m/new.gguf"}
DEEP = 100_000
DEADLINE_S = 20.0


class Client:
    """Talks to the API as anybody may: whatever bytes, whatever headers."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.address = ("127.0.0.1", int(server.root.rpartition(":")[2]))
        self.token = server.admin_token

    def send(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Make one request; a body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection(*self.address, timeout=DEADLINE_S)
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"authorization": f"Bearer {self.token}", "content-type": "application/json", **headers}
        try:
            connection.request(method, path, raw, {name: value for name, value in sent.items() if value})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def error(self, status: int, method: str, path: str, body: object = None, **headers: str) -> dict[str, Any]:
        """Make a request that is refused with `status`; gives the error."""
        got, said, raw = self.send(method, path, body, **headers)
        assert got == status, raw[:500]
        return inner(said["content-type"], raw)

    def raw(self, *parts: bytes, patience_s: float = DEADLINE_S) -> tuple[bytes, bytes]:
        """Write bytes and read to the end, or until `patience_s` without a byte. Gives head and body of the answer."""
        with socket.create_connection(self.address, timeout=patience_s) as connection:
            read = b""
            try:
                for part in parts:
                    connection.sendall(part)
            except OSError:
                pass  # refused before everything was sent: what it said is still to be read
            try:
                while more := connection.recv(65536):
                    read += more
            except OSError:
                pass
        head, _, body = read.partition(b"\r\n\r\n")
        return head, body

    def everything(self) -> list[object]:
        """Give all that is stored, as the API shows it."""
        paths = ("models", "keys", "nodes", "replicas", "events?limit=1000")
        return [json.loads(self.send("GET", f"/api/v1/{path}")[2]) for path in paths]


def inner(kind: str, raw: bytes) -> dict[str, Any]:
    assert kind == "application/json"
    body = json.loads(raw)
    assert set(body) == {"error"}
    assert set(body["error"]) == SHAPE
    assert body["error"]["message"]
    return body["error"]


@pytest.fixture(scope="module")
def client(control_plane: ServerProcess) -> Client:
    client = Client(control_plane)
    made = {"name": "org/chat", "source": "/m/chat.gguf", "max": 2, "profile": {"context": 512}}
    assert client.send("POST", "/api/v1/models", made)[0] == 201
    assert client.send("POST", "/api/v1/keys", {"name": "team"})[0] == 201
    # The reconciler says once that the model fits nowhere; after that nothing happens by itself.
    deadline = time.monotonic() + DEADLINE_S
    while "model.unplaceable" not in str(client.everything()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return client


@pytest.fixture(autouse=True)
def nothing_changes(client: Client):
    before = client.everything()
    yield
    assert client.everything() == before


NOT_JSON = [
    (b"", "the body is empty"),
    (b"  \n", "the body is empty"),
    (b"{", "truncated"),
    (b"nul", "truncated"),
    (b"{'name': 'new'}", "byte 1"),
    (b'{"name": "new", "source": "/m"} more', "trailing characters (byte 33)"),
    (b'{"name": "new", "source": "/m", "min": NaN}', "byte 39"),
    (b'{"name": "new", "source": "/m", "min": 1e400}', "out of range"),
    (b'{"name": "new", "source": "/m", "min": ' + b"9" * 5000 + b"}", "out of range"),
    (b'\xef\xbb\xbf{"name": "new", "source": "/m"}', "byte 0"),
    (json.dumps(OK).encode("utf-16"), "byte 0"),
    (b'{"name": "\xff\xfe", "source": "/m"}', "UTF-8"),
    (b'{"name": "\xc0\xaf", "source": "/m"}', "UTF-8"),
    (b'{"name": "\\ud800", "source": "/m"}', "surrogate"),
    (b"[" * DEEP + b"]" * DEEP, "nested too deeply"),
    (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "nested too deeply"),
    (b'{"name": "new", "source": "/m", "profile": ' + b"[" * DEEP, "nested too deeply"),
]


@pytest.mark.parametrize(("body", "said"), NOT_JSON, ids=lambda value: repr(value)[:40])
def test_what_is_not_json_is_said_with_its_place(client, body, said):
    error = client.error(400, "POST", "/api/v1/models", body)
    assert said in error["message"]
    assert "openapi.json" in error["hint"]


@pytest.mark.parametrize("body", [[], None, "text", 7, True, 1.5])
def test_json_that_is_no_object_is_refused(client, body):
    error = client.error(400, "POST", "/api/v1/models", json.dumps(body).encode())
    assert error["message"].startswith("the body: expected `object`, got")


FIELDS = [
    ({"source": "/m"}, "name", "field 'name' is missing"),
    ({"name": "new"}, "source", "is missing"),
    ({**OK, "nmae": "x"}, "nmae", "unknown field"),
    ({**OK, "name": 7}, "name", "expected `str`, got `int`"),
    ({**OK, "name": None}, "name", "got `null`"),
    ({**OK, "min": "1"}, "min", "expected `int`, got `str`"),
    ({**OK, "min": True}, "min", "got `bool`"),
    ({**OK, "min": 1.0}, "min", "got `float`"),
    ({**OK, "min": -1}, "min", "between 0 and 10000"),
    ({**OK, "min": 10**30}, "min", "between 0 and 10000"),
    ({**OK, "min": 3, "max": 2}, "max", "between 3 (min) and 10000"),
    ({**OK, "max": 0}, "max", "between 1"),
    ({**OK, "role": "chta"}, "role", "is not one of chat, embed"),
    ({**OK, "role": ["chat"]}, "role", "got `array`"),
    ({**OK, "profile": []}, "profile", "expected `object`, got `array`"),
    ({**OK, "profile": {"engine": "llama"}}, "profile.engine", "is not one of llamacpp"),
    ({**OK, "profile": {"context": -5}}, "profile.context", "at least 1"),
    ({**OK, "profile": {"context": 2**63}}, "profile.context", "limits"),
    ({**OK, "profile": {"memory_gb": 1e300}}, "profile.memory_gb", "limits"),
    ({**OK, "profile": {"cores": 0}}, "profile.cores", "more than 0"),
    ({**OK, "profile": {"flags": {"n_batch": 512}}}, "profile.flags.n_batch", "expected `str`, got `int`"),
    ({**OK, "profile": {"flags": {"n_bach": "512"}}}, "profile.flags.n_bach", "no flag 'n_bach'"),
    ({**OK, "profile": {"flags": {"n_batch": "many"}}}, "profile.flags.n_batch", "many"),
    ({**OK, "profile": {"env": {"LD_PRELOAD": "/x.so"}}}, "profile.env.LD_PRELOAD", "may not be set"),
    ({**OK, "profile": {"env": {"": ""}}}, "profile.env.", "''"),
    ({**OK, "profile": {"engine_version": "\x00"}}, "profile.engine_version", "printable"),
    ({**OK, "profile": {"node_selector": {"": ""}}}, "profile.node_selector.", "printable"),
    ({**OK, "profile": {"node_selector": {"rack": "a" * 1000}}}, "profile.node_selector.rack", "printable"),
    ({**OK, "profile": {"chat_template": "chatml"}}, "profile.chat_template", "Jinja"),
]


@pytest.mark.parametrize(("body", "field", "said"), FIELDS, ids=lambda value: repr(value)[-50:])
def test_a_wrong_field_is_named_with_what_is_wrong(client, body, field, said):
    error = client.error(400, "POST", "/api/v1/models", body)
    assert error["field"] == field
    assert said in error["message"]


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ({**OK, "rolle": "chat"}, "did you mean 'role'?"),
        ({**OK, "engine": "llamacpp"}, "did you mean 'profile.engine'?"),
        ({**OK, "profile": {"contxt": 1}}, "did you mean 'context'?"),
        ({**OK, "profile": {"memory_gib": 1}}, "did you mean 'memory_gb'?"),
    ],
)
def test_an_unknown_field_names_the_nearest(client, body, hint):
    error = client.error(400, "POST", "/api/v1/models", body)
    assert error["hint"] == hint
    assert error["allowed"]


@pytest.mark.parametrize(
    "body", [b'{"name": "a", "name": "new", "source": "/m"}', b'{"name": "new", "source": "/m", "source": "/m"}']
)
def test_a_field_given_twice_is_refused(client, body):
    assert "is given twice" in client.error(400, "POST", "/api/v1/models", body)["message"]


NAMES = [
    "",
    " ",
    "a b",
    "a\x00",
    "new\n",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a/../b",
    "a//b",
    "C:\\x",
    "ä",
    "x" * 201,
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_looks_like_a_path_or_holds_odd_characters_is_refused(client, name):
    error = client.error(400, "POST", "/api/v1/models", {**OK, "name": name})
    assert error["field"] == "name"
    assert error["allowed"]


SOURCES = [
    "",
    "m.gguf",
    "./m",
    "/a/../m",
    "/a//m",
    "//m",
    "/m/",
    "/m\x00",
    "/" + "a" * 5000,
    "http://x/m",
    "hf:org@main",
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda value: repr(value)[:30])
def test_a_source_that_no_node_could_report_is_refused(client, source):
    assert client.error(400, "POST", "/api/v1/models", {**OK, "source": source})["field"] == "source"


@pytest.mark.parametrize("name", ["", " ", "\x00", "a\nb", "\u202e", "x" * 101])
def test_a_keys_name_is_printable(client, name):
    assert client.error(400, "POST", "/api/v1/keys", {"name": name})["field"] == "name"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"replicas": -1}, "replicas"),
        ({"replicas": 10_001}, "replicas"),
        ({"replicas": "3"}, "replicas"),
        ({"replicas": None}, "replicas"),
        ({}, "replicas"),
        ({"replica": 1}, "replica"),
    ],
)
def test_a_model_is_not_scaled_by_nonsense(client, body, field):
    assert client.error(400, "POST", "/api/v1/models/org/chat/scale", body)["field"] == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"min": 5}, "max"),
        ({"max": 0}, "max"),
        ({"name": "other"}, "name"),
        ({"revision": 9}, "revision"),
        ({"profile": {"context": "x"}}, "profile.context"),
        ({"profile": {"contxt": 1}}, "profile.contxt"),
        ({"profile": {"engine": None}}, "profile.engine"),
        ({"profile": {"flags": None}}, "profile.flags"),
        ({"source": "/a/../b"}, "source"),
    ],
)
def test_a_model_is_not_changed_to_nonsense(client, body, field):
    assert client.error(400, "PATCH", "/api/v1/models/org%2Fchat", body)["field"] == field


def test_a_name_that_is_taken_is_a_conflict(client):
    error = client.error(409, "POST", "/api/v1/models", {**OK, "name": "org/chat"})
    assert (error["code"], error["field"]) == ("conflict", "name")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/models/none", None),
        ("PATCH", "/models/none", {"min": 1}),
        ("DELETE", "/models/none", None),
        ("POST", "/models/none/scale", {"replicas": 1}),
        ("POST", "/models/none/unpark", None),
        ("GET", "/nodes/none", None),
        ("GET", "/replicas/none", None),
        ("GET", "/replicas/none/logs", None),
        ("DELETE", "/keys/lk_AAAAAAAA", None),
        ("GET", "/models/%00", None),
        ("GET", "/models/..%2f..%2fetc%2fpasswd", None),
        ("GET", "/nodes/%ff", None),
        ("GET", "/models/" + "a" * 5000, None),
    ],
)
def test_what_is_not_there_is_named(client, method, path, body):
    error = client.error(404, method, f"/api/v1{path}", body)
    assert error["code"] == "not_found"
    assert "there is no" in error["message"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=99999999999999999999999", "limit"),
        ("limit=many", "limit"),
        ("limit=", "limit"),
        ("limit=%00", "limit"),
        ("limit=1&limit=2", "limit"),
        ("before=0", "before"),
        ("before=99999999999999999999999", "before"),
        ("limitt=1", "limitt"),
    ],
)
def test_a_wrong_query_names_the_parameter(client, query, field):
    assert client.error(400, "GET", f"/api/v1/events?{query}")["field"] == field


def test_a_query_where_none_belongs_is_refused(client):
    error = client.error(400, "GET", "/api/v1/models/org/chat?verbose=1")
    assert (error["field"], error["hint"]) == ("verbose", "known here: none")


def test_a_body_where_none_belongs_is_refused(client):
    assert client.error(400, "DELETE", "/api/v1/models/org/chat", {"force": True})["field"] == "force"


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "garbage"])
def test_a_body_said_to_be_something_else_is_refused(client, kind):
    error = client.error(415, "POST", "/api/v1/models", OK, **{"content-type": kind})
    assert error["allowed"] == ["application/json"]
    assert kind in error["message"]


@pytest.mark.parametrize("path", ["/api/v1", "/api/v1/", "/api/v1/model", "/api/v2/models", "/api/v1//models"])
def test_an_unknown_path_is_named(client, path):
    assert path in client.error(404, "GET", path)["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/api/v1/models", ["GET", "HEAD", "POST"]),
        ("OPTIONS", "/api/v1/models", ["GET", "HEAD", "POST"]),
        ("TRACE", "/api/v1/keys", ["GET", "HEAD", "POST"]),
        ("PUT", "/api/v1/models/org/chat", ["DELETE", "GET", "HEAD", "PATCH"]),
        ("POST", "/api/v1/summary", ["GET", "HEAD"]),
        ("DELETE", "/healthz", ["GET", "HEAD"]),
    ],
)
def test_a_wrong_method_names_all_right_ones(client, method, path, allowed):
    status, said, raw = client.send(method, path)
    assert status == 405
    error = inner(said["content-type"], raw)
    assert error["allowed"] == allowed
    assert sorted(said["allow"].split(", ")) == allowed


@pytest.mark.parametrize(("path", "status"), [("/api/v1/models", 200), ("/api/v1/models/none", 404), ("/healthz", 200)])
def test_head_is_get_without_the_body(client, path, status):
    got, said, raw = client.send("HEAD", path)
    assert (got, raw) == (status, b"")
    assert int(said["content-length"]) == len(client.send("GET", path)[2])


def test_nothing_can_be_changed_without_a_token(client):
    for token in ("", "Bearer", "Bearer lt_AAAAAAAAwrong", "Basic bHRfQQ==", "Bearer \u00ff"):
        error = client.error(401, "POST", "/api/v1/models", OK, authorization=token)
        assert error["code"] == "unauthorized"


# Bytes --------------------------------------------------------------------------------------------


def head(client: Client, line: str, *more: str) -> bytes:
    lines = (line, "host: x", f"authorization: Bearer {client.token}", "content-type: application/json", *more)
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def refused(answer: tuple[bytes, bytes], status: int) -> dict[str, Any]:
    said, body = answer
    assert said.startswith(f"HTTP/1.1 {status} ".encode()), said
    assert b"content-type: application/json" in said
    return inner("application/json", body)


def memory_mib(client: Client) -> float:
    pages = int(Path(f"/proc/{client.server.pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def test_a_body_of_100_mb_is_refused_while_others_are_answered(client):
    before = memory_mib(client)
    parts = [b"x" * 2**20] * 100
    declared = head(client, "POST /api/v1/models HTTP/1.1", "content-length: 104857600", "connection: close")
    assert refused(client.raw(declared, *parts), 413)["code"] == "too_large"
    chunked = head(client, "POST /api/v1/models HTTP/1.1", "transfer-encoding: chunked", "connection: close")
    chunk = b"100000\r\n" + b"x" * 2**20 + b"\r\n"
    assert refused(client.raw(chunked, *[chunk] * 100), 413)["code"] == "too_large"
    assert client.send("GET", "/api/v1/models")[0] == 200
    assert memory_mib(client) - before < 20


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: ", *[b"x" * 2**20] * 20],
        [b"GET /healthz HTTP/1.1\r\n", *[b"a: b\r\n" * 10_000] * 20],
        [b"GET /", *[b"x" * 2**20] * 20],
    ],
    ids=["one header", "many headers", "path"],
)
def test_a_head_without_end_is_refused_at_64_kb(client, parts):
    before = memory_mib(client)
    began = time.monotonic()
    assert refused(client.raw(*parts), 431)["code"] == "headers_too_large"
    assert time.monotonic() - began < 5
    assert memory_mib(client) - before < 20


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 500,
        b"GET / HTTP/9.9\r\nhost: x\r\n\r\n",
        b"HELLO\r\n\r\n",
        b"GET /api/v1/models/\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /api/v1/models HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        b"POST /api/v1/models HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /api/v1/models HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\na : b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\na: b\r\n c\r\n\r\n",
    ],
    ids=lambda raw: repr(raw)[2:40],
)
def test_what_is_no_http_is_refused_in_the_one_shape(client, raw):
    assert refused(client.raw(raw), 400)["code"] == "bad_request"


def test_a_body_cut_in_the_middle_changes_nothing_and_breaks_nothing(client):
    began = head(client, "POST /api/v1/models HTTP/1.1", "content-length: 1000")
    client.raw(began, b'{"name": "new", "source": "/m', patience_s=0.3)
    broken = head(client, "POST /api/v1/models HTTP/1.1", "transfer-encoding: chunked")
    refused(client.raw(broken, b"zz\r\n"), 400)
    assert client.send("GET", "/healthz")[0] == 200


def test_a_percent_encoded_slash_is_a_slash_of_the_name(client):
    assert client.send("GET", f"/api/v1/models/{quote('org/chat', safe='')}")[0] == 200
