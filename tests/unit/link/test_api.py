"""The API client against a real server on loopback that says what a test wants."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from llmgw.link.api import Api, NotTheApi, Unreachable
from llmgw.schema.errors import Conflict, InvalidInput, NoLeader, NotFound


@pytest.fixture
def serve() -> Iterator[Callable[..., Api]]:
    servers: list[HTTPServer] = []

    def make(status: int, body: bytes, kind: str = "application/json") -> Api:
        class Answer(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the base class looks for these names

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return Api(f"http://127.0.0.1:{server.server_port}", "lt_token", timeout_s=5)

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def error(code: str, **more: object) -> bytes:
    return json.dumps({"error": {"code": code, "message": "what happened", **more}}).encode()


def test_an_answer_is_decoded(serve):
    assert serve(200, b'{"models": []}').get("/api/v1/models") == {"models": []}
    assert serve(204, b"").delete("/api/v1/x") is None


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(404, "not_found", NotFound), (409, "conflict", Conflict), (503, "no_leader", NoLeader)],
)
def test_an_error_comes_out_as_itself(serve, status, code, kind):
    with pytest.raises(kind) as caught:
        serve(status, error(code, hint="do this")).get("/x")
    assert caught.value.message == "what happened"
    assert caught.value.hint == "do this"
    assert caught.value.code == code


def test_bad_input_names_the_field_and_what_is_allowed(serve):
    with pytest.raises(InvalidInput) as caught:
        serve(400, error("invalid_input", field="role", allowed=["chat", "embed"])).post("/x", {})
    assert caught.value.field == "role"
    assert caught.value.allowed == ("chat", "embed")


def test_a_web_page_is_said_plainly(serve):
    with pytest.raises(NotTheApi, match="a web page"):
        serve(200, b"<html></html>", "text/html").get("/x")
    with pytest.raises(NotTheApi, match="a web page"):
        serve(404, b"<html></html>", "text/html").get("/x")


def test_somebody_elses_json_is_not_the_api(serve):
    with pytest.raises(NotTheApi, match="status 404"):
        serve(404, b'{"detail": "Not Found"}').get("/x")


def test_a_closed_port_is_unreachable():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(Unreachable, match="Connection refused"):
        Api(f"http://127.0.0.1:{port}", None).get("/x")


def test_an_address_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="is not the address"):
        Api("127.0.0.1:8800", None)
