"""What is wrong with a configuration is one line on standard error that names it, exit code 1, and no traceback."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROCESSES = ("server", "gateway", "agent", "door")
DEADLINE_S = 60.0


class Folder:
    """Configurations of all processes in one folder; each is right until a test makes it wrong."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "token").write_text("agent-token\n")

    def settings(self, process: str) -> dict[str, object]:
        data = {"data_dir": str(self.root / process)}
        loopback = "127.0.0.1:0"
        return {
            "server": {**data, "api_listen": loopback, "agent_listen": loopback},
            "gateway": {**data, "listen": loopback, "control_socket": str(self.root / "hub.sock")},
            "agent": {
                **data,
                "servers": ["127.0.0.1:9"],
                "token_file": str(self.root / "token"),
                "door_listen": loopback,
            },
            "door": {**data, "listen": loopback},
        }[process]

    def write(self, process: str, **changes: object) -> Path:
        path = self.root / f"{process}.toml"
        settings = {**self.settings(process), **changes}
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items()))
        return path

    def refused(self, process: str, config: Path, *more: str, code: int = 1) -> str:
        """Run a process that cannot start; gives what it said."""
        done = run(process, "--config", str(config), *more)
        assert done.returncode == code, done.stdout + done.stderr
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        return done.stderr

    def told(self, process: str, **changes: object) -> str:
        """Give the one line about a wrong setting; at most one more says what to do."""
        said = self.refused(process, self.write(process, **changes)).splitlines()
        lines = [line for line in said if not line.startswith("{")]  # the log, where it began already
        assert lines[0].startswith("llmgw: ")
        assert len(lines) <= 2
        return "\n".join(lines)


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llmgw", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
        env={**os.environ, **env},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("process", PROCESSES)
def test_an_unknown_key_names_the_nearest(folder, process):
    said = folder.told(process, log_levl="info")
    assert f"{process}.toml: unknown key 'log_levl'" in said
    assert "did you mean 'log_level'?" in said


@pytest.mark.parametrize("process", PROCESSES)
def test_an_unknown_flag_names_the_nearest_and_ends_with_2(folder, process):
    done = run(process, "--confg", str(folder.write(process)))
    assert done.returncode == 2
    assert "--confg" in done.stderr
    assert "--config" in done.stderr.partition("--confg")[2]


@pytest.mark.parametrize("process", PROCESSES)
def test_a_data_dir_that_cannot_be_is_named(folder, process):
    (folder.root / "file").touch()
    said = folder.told(process, data_dir=str(folder.root / "file" / "below"))
    assert "data_dir = " in said
    assert "Not a directory" in said


@pytest.mark.parametrize(
    ("process", "content", "words"),
    [
        ("server", None, "Is a directory"),
        ("gateway", b"\x7fELF\x02\x01\x01\x00\xff\xfe\xfd", "is not text in UTF-8 (byte 8)"),
        ("agent", b"data_dir = /var/lib/llmgw\n", "is not TOML"),
        ("door", b"", "missing required field `data_dir`"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(folder, process, content, words):
    path = folder.root / "config.toml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    said = folder.refused(process, path)
    assert str(path) in said
    assert words in said


@pytest.mark.parametrize(
    ("process", "key", "value", "words"),
    [
        ("gateway", "workers", 0, "gateway.toml: workers: expected `int` >= 1"),
        ("agent", "token_file", "/", "token_file = '/' cannot be read: Is a directory"),
        ("server", "store_url", "nonsense", "store_url is not a database URL"),
        ("server", "store_url", "mysql://x/y", "store_url names mysql"),
        ("server", "store_url", "sqlite:////proc/none/x.db", "/proc/none/x.db cannot be opened"),
        ("server", "gateway_socket", "/tmp/" + "a" * 200, "longer than a Unix socket's path may be"),
    ],
)
def test_a_value_that_cannot_be_is_named(folder, process, key, value, words):
    assert words in folder.told(process, **{key: value})


@pytest.mark.parametrize("key", ["agent_token_file", "credentials_file"])
def test_a_file_of_secrets_that_is_something_else_is_named(folder, key):
    (folder.root / "binary").write_bytes(b"\x93NUMPY\x01\x00")
    said = folder.told("server", **{key: str(folder.root / "binary")})
    assert str(folder.root / "binary") in said


def test_a_store_that_is_no_database_is_named(folder):
    (folder.root / "text.db").write_text("this is no database, whatever its name says\n" * 100)
    said = folder.told("server", store_url=f"sqlite:///{folder.root / 'text.db'}")
    assert f"store {folder.root / 'text.db'}: file is not a database" in said
    assert (folder.root / "text.db").read_text().startswith("this is no database")


@pytest.mark.parametrize("key", ["api_listen", "agent_listen"])
def test_a_port_of_the_server_that_is_taken_is_named(folder, taken, key):
    said = folder.told("server", **{key: f"127.0.0.1:{taken}"})
    assert f"port {taken} is in use: {key} = '127.0.0.1:{taken}'" in said
    assert not (folder.root / "server" / "llmgw.db").exists(), "it leaves no trace"


def test_a_port_of_the_gateway_that_is_taken_is_named(folder, taken):
    assert f"port {taken} is taken by another program" in folder.told("gateway", listen=f"127.0.0.1:{taken}")
    alone = run("gateway", "--port", str(taken), "--model", "m", "--engine", "http://127.0.0.1:9")
    assert alone.returncode == 1
    assert f"port {taken} is taken by another program" in alone.stderr
    assert "Traceback" not in alone.stderr


def test_a_door_whose_port_is_taken_takes_another_and_says_so(folder, taken):
    config = folder.write("door", listen=f"127.0.0.1:{taken}")
    command = [sys.executable, "-m", "llmgw", "door", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as door:
        try:
            said = folder.root / "door" / "door.json"
            deadline = time.monotonic() + DEADLINE_S
            while not said.exists():
                assert time.monotonic() < deadline
                assert door.poll() is None
                time.sleep(0.05)
            listens = json.loads(said.read_text())["listen"]
            assert listens != f"127.0.0.1:{taken}"
            host, _, port = listens.rpartition(":")
            socket.create_connection((host, int(port)), timeout=5).close()
        finally:
            door.send_signal(signal.SIGTERM)
        _, log = door.communicate(timeout=DEADLINE_S)
    assert door.returncode == 0
    assert f'"wanted": "127.0.0.1:{taken}"'.encode() in log


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", "0", "--model", "m", "--engine", "127.0.0.1:9"), "127.0.0.1:9"),
        (("--port", "0", "--model", "m", "--engine", "http://127.0.0.1:99999"), "99999"),
        (("--port", "0", "--model", "m", "--engine", "https://127.0.0.1:9"), "https"),
        (("--port", "0", "--model", "m", "--engine", "http://"), "http://"),
    ],
)
def test_an_engine_of_a_gateway_alone_that_has_no_address_is_named(arguments, words):
    done = run("gateway", *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
