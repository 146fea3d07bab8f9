import json
import stat
import sys
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from llmgw.core import backup as files
from llmgw.ctl import backup as backup_module
from llmgw.ctl.backup import backup
from llmgw.ctl.restore import restore
from llmgw.ctl.session import Session
from llmgw.schema.backup import Content
from llmgw.schema.errors import Conflict, InvalidInput
from llmgw.testing.clock import FakeClock

SEALED = files.seal(
    Content(schema="0001", epoch=4, tables={"nodes": ({"id": "n1", "body": "{}"},)}),
    llmgw="0.1.0",
    taken_at=FakeClock().now(),
    taken_by="c1",
)
RESTORED = {
    "taken_at": "2026-01-02T03:04:05Z",
    "taken_by": "c1",
    "epoch": 5,
    "rows": {"nodes": 1, "models": 0},
    "logins": [{"id": "lt_1", "name": "root", "role": "admin"}],
    "your_token_works": False,
    "restarts": True,
}


class Api:
    def __init__(self):
        self.posted = None

    def get(self, path):
        assert path == "/api/v1/backup"
        return msgspec.to_builtins(SEALED)

    def post(self, path, body):
        assert path == "/api/v1/restore"
        self.posted = body
        return RESTORED


class FakeSession(Session):
    def __init__(self):
        super().__init__(context=None, output="table")
        self.fake = Api()

    def api_within(self, timeout_s):
        assert timeout_s > 60
        return self.fake


@pytest.fixture
def session():
    return FakeSession()


def run(command, arguments, session, **more):
    done = CliRunner().invoke(command, arguments, obj=session, **more)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_a_backup_is_written_for_its_owner_only_and_reads_back(tmp_path, session):
    path = tmp_path / "llmgw.backup"
    done = run(backup, [str(path)], session)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert files.read(path.read_bytes()) == SEALED
    assert "it holds secrets" in done.output
    assert "epoch 4, 1 rows" in done.output
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_there_is_never_overwritten(tmp_path, session):
    path = tmp_path / "llmgw.backup"
    path.write_text("older")
    with pytest.raises(Conflict, match="there already"):
        run(backup, [str(path)], session)
    assert path.read_text() == "older"


def test_a_folder_that_is_not_there_is_named_before_anything_is_asked(tmp_path, session):
    with pytest.raises(InvalidInput, match="no folder"):
        run(backup, [str(tmp_path / "none" / "file")], session)


def test_standard_output_is_used_only_where_it_is_no_terminal(session, monkeypatch):
    done = run(backup, ["-"], session)
    assert files.read(done.stdout_bytes) == SEALED
    fake = SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True), stdin=sys.stdin)
    monkeypatch.setattr(backup_module, "sys", fake)
    with pytest.raises(InvalidInput, match="terminal"):
        run(backup, ["-"], session)


def test_what_was_written_is_restored_and_what_to_know_is_said(tmp_path, session):
    path = tmp_path / "llmgw.backup"
    run(backup, [str(path)], session)
    done = run(restore, ["--into-new-cluster", str(path)], session)
    assert files.read(json.dumps(session.fake.posted).encode()) == SEALED
    for said in (
        "1 nodes",
        "root (lt_1, admin)",
        "the one you used is not among them",
        "llmgw ctl server resume",
        "start it again",
    ):
        assert said in done.output


def test_a_backup_is_read_from_standard_input(session):
    run(restore, ["--into-new-cluster", "-"], session, input=msgspec.json.encode(SEALED))
    assert session.fake.posted["sha256"] == SEALED.sha256


def test_restoring_must_be_meant(tmp_path, session):
    done = run(restore, [str(tmp_path / "file")], session)
    assert done.exit_code == 2
    assert "--into-new-cluster" in done.output
    assert session.fake.posted is None


@pytest.mark.parametrize(
    ("data", "word"), [(b"GIF89a", "no backup"), (b'{"format": ', "cut off"), (None, "cannot read")]
)
def test_what_is_no_backup_is_refused_before_anything_is_asked(tmp_path, session, data, word):
    path = tmp_path / "file"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InvalidInput, match=word):
        run(restore, ["--into-new-cluster", str(path)], session)
    assert session.fake.posted is None
