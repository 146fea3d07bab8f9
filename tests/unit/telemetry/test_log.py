import json
import logging
import sys
from pathlib import Path

import pytest

from llmgw.telemetry import log


@pytest.mark.parametrize(
    ("text", "kept", "gone"),
    [
        ("key lk_abcdefgh0123456789abcdef used", "lk_abcdefgh", "0123456789abcdef"),
        ("token=lt_ABCDEFGH_secret-part-0123", "lt_ABCDEFGH", "secret-part"),
        ("engine key le_abcdefghXYZXYZXYZXYZ", "le_abcdefgh", "XYZXYZ"),
        ("Authorization: Bearer abc.def-ghi/jkl=", "Bearer", "abc.def"),
    ],
)
def test_a_secret_is_redacted_and_its_public_prefix_stays(text: str, kept: str, gone: str):
    redacted = log.redact(text)
    assert kept in redacted
    assert gone not in redacted


def test_a_public_id_alone_is_no_secret():
    assert log.redact("key lk_abcdefgh revoked") == "key lk_abcdefgh revoked"


def test_a_line_is_redacted_whatever_part_it_came_from(capsys, restore_logging):
    log.configure(level="info", style="json", process="test")
    log.get("here").info("key.used", key="lk_abcdefgh0123456789abcdef")
    logging.getLogger("elsewhere").warning("got %s", "Bearer 0123456789abcdef")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["key.used", "got Bearer [redacted]"]
    assert lines[0]["key"] == "lk_abcdefgh [redacted]"
    assert lines[0]["level"] == "info"


@pytest.fixture
def restore_logging():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_that_finds_no_room_is_lost_and_counted_and_ends_nothing(tmp_path, monkeypatch, restore_logging):
    with Path("/dev/full").open("w") as full, (tmp_path / "log").open("a") as stream:
        monkeypatch.setattr(sys, "stderr", full)
        log.configure(level="info", style="json", process="test")
        for number in range(3):
            log.get("here").info("lost", number=number)
        logging.getLogger().handlers[0].setStream(stream)
        log.get("here").info("there.is.room")
        log.get("here").info("again")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["log.lost", "there.is.room", "again"]
    assert lines[0]["lines"] == 3
