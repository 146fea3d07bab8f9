"""`ctl` against what is not there, not the API, or does not know the token: plain words and the right exit code."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from llmgw.testing.server_process import ServerProcess

OK, FAILED, USAGE, NOT_FOUND, NOT_THE_API = range(5)

COMMANDS = [
    ("status",),
    ("model", "serve", "m", "--source", "/m.gguf"),
    ("replica", "list", "--model", "m"),
    ("key", "create", "k"),
    ("-o", "json", "events"),
]


def ctl(*arguments: str, api: str, token: str = "lt_AAAAAAAAwrong", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llmgw", "ctl", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LLMGW_API": api, "LLMGW_TOKEN": token, **env},
    )


def refused(done: subprocess.CompletedProcess[str], code: int) -> str:
    """Give what was said: one line of what happened, at most one of what to do, nothing else."""
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == ""
    said, *hint = done.stderr.splitlines()
    assert said.startswith("llmgw: ")
    assert len(hint) <= 1
    assert not hint or hint[0].startswith("       ")
    return done.stderr


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serve one answer to everything; gives the address."""
    servers: list[HTTPServer] = []

    def make(body: bytes, kind: str = "text/html", status: int = 200) -> str:
        class Answer(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815 - the base class looks for these names

            def log_message(self, *_: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_web_page_is_told_from_the_api(serve, command):
    said = refused(ctl(*command, api=serve(b"<!doctype html><title>Welcome</title>")), NOT_THE_API)
    assert "answered with a web page, not with the API of llmgw" in said
    assert "8800" in said


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_closed_port_is_told(closed_port, command):
    assert f"cannot reach {closed_port}: Connection refused" in refused(ctl(*command, api=closed_port), NOT_THE_API)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_wrong_token_is_told(control_plane: ServerProcess, command):
    said = refused(ctl(*command, api=control_plane.root), FAILED)
    assert "no valid admin token" in said
    assert "wrong" not in said, "tokens are never repeated"


def test_no_token_is_told(control_plane: ServerProcess):
    assert "needs a token" in refused(ctl("status", api=control_plane.root, token=""), FAILED)


def test_a_right_token_is_all_it_takes(control_plane: ServerProcess):
    done = ctl("-o", "json", "status", api=control_plane.root, token=control_plane.admin_token)
    assert done.returncode == OK
    assert json.loads(done.stdout)["leader"] == "control-1"


def test_what_is_not_there_ends_with_3_and_bad_input_with_1(control_plane: ServerProcess):
    known = {"api": control_plane.root, "token": control_plane.admin_token}
    assert "there is no model 'org/none'" in refused(ctl("model", "show", "org/none", **known), NOT_FOUND)
    assert "there is no replica" in refused(ctl("replica", "logs", "none", **known), NOT_FOUND)
    assert "a/../b" in refused(ctl("model", "serve", "a/../b", "--source", "/m.gguf", **known), FAILED)
    said = refused(ctl("model", "serve", "m", "--source", "/m.gguf", "--flag", "n_bach=3", **known), FAILED)
    assert "no flag 'n_bach'" in said
    assert "n_batch" in said


@pytest.mark.parametrize(
    ("body", "kind", "status", "words"),
    [
        (b"<html>", "text/html; charset=utf-8", 404, "a web page"),
        (b"<html>", "text/html", 302, "a web page"),
        (b'{"detail": "Not Found"}', "application/json", 404, "status 404"),
        (b'{"detail": "hello"}', "application/json", 200, "cannot be understood"),
        (b"[]", "application/json", 200, "not with the API"),
        (b"[" * 200_000, "application/json", 200, "not with the API"),
        (b"\xff\xfe", "application/octet-stream", 200, "not with the API"),
        (b"", "text/plain", 200, "cannot be understood"),
        (b'{"error": {"code": "unauthorized"', "application/json", 401, "not with the API"),
    ],
)
def test_whatever_else_answers_is_not_the_api(serve, body, kind, status, words):
    assert words in refused(ctl("status", api=serve(body, kind, status)), NOT_THE_API)


def test_what_speaks_no_http_is_told():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    connection.sendall(b"220 mail.example.org ESMTP\r\n")
                    connection.close()

        threading.Thread(target=greet, daemon=True).start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        plain = ctl("status", api=f"http://{address}")
        secure = ctl("status", api=f"https://{address}")
        listening.shutdown(socket.SHUT_RDWR)
    assert refused(plain, NOT_THE_API)
    assert "does not speak TLS" in refused(secure, NOT_THE_API)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:8800", "ftp://127.0.0.1", "http://", "http://127.0.0.1:99999", "http://[::1", "http://a b:80"],
)
def test_an_address_that_is_none_is_refused(address):
    assert "is not the address of an API" in refused(ctl("status", api=address), FAILED)


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "\u20ac"])
def test_a_token_that_cannot_be_one_is_refused_before_it_is_sent(closed_port, token):
    assert "the token has characters" in refused(ctl("status", api=closed_port, token=token), FAILED)


def test_a_contexts_file_that_cannot_be_used_is_named(tmp_path: Path):
    def told(content: bytes | None) -> str:
        path = tmp_path / "ctl.toml"
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
        said = refused(ctl("status", api="", LLMGW_CTL_CONFIG=str(path)), FAILED)
        assert str(path) in said
        return said

    assert "did you mean 'current'?" in told(b'curent = "local"')
    assert "is not TOML" in told(b"current = local")
    assert "UTF-8" in told(b"\x93\x94")
    assert "api: expected `str`, got `int`" in told(b'[contexts.a]\napi = 5\ntoken = "t"')
    assert "names no context" in told(b"")
    (tmp_path / "ctl.toml").unlink()
    assert "Is a directory" in told(None)


def test_an_unknown_command_or_flag_names_the_nearest(closed_port):
    for arguments, nearest in [
        (("model", "shwo", "m"), "'show'"),
        (("model", "serve", "m", "--memory-bg", "1"), "'--memory-gb'"),
        (("stauts",), "'status'"),
    ]:
        done = ctl(*arguments, api=closed_port)
        assert done.returncode == USAGE
        assert f"Did you mean {nearest}?" in done.stderr
