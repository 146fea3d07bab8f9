import json

import msgspec
import pytest

from llmgw.core import backup
from llmgw.schema.backup import Content
from llmgw.schema.errors import InvalidInput
from llmgw.testing.clock import FakeClock

CONTENT = Content(
    schema="0001", epoch=4, tables={"settings": ({"id": "ü", "value": "1"},), "nodes": ({"id": "n1", "body": "{}"},)}
)
NOW = FakeClock().now()


@pytest.fixture
def sealed():
    return backup.seal(CONTENT, llmgw="0.1.0", taken_at=NOW, taken_by="c1")


@pytest.fixture
def file(sealed):
    return msgspec.json.encode(sealed)


def refused(data):
    with pytest.raises(InvalidInput) as found:
        backup.read(data)
    assert found.value.hint
    assert found.value.field == "backup"
    return found.value


def test_what_was_sealed_is_read_back(sealed, file):
    assert backup.read(file) == sealed


def test_spaces_and_order_do_not_matter(sealed, file):
    data = json.loads(file)
    data["content"]["tables"] = dict(reversed(data["content"]["tables"].items()))
    assert backup.read(json.dumps(data, indent=3, sort_keys=True).encode()).sha256 == sealed.sha256


def test_fields_a_later_release_added_are_passed_over(sealed, file):
    data = json.loads(file)
    data["comment"] = "nightly"
    assert backup.read(json.dumps(data).encode()) == sealed


def test_a_file_cut_anywhere_is_refused(file):
    for length in range(len(file)):
        assert refused(file[:length]).code == "backup_unreadable"
    assert "cut off after" in refused(file[:-1]).message


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"SQLite format 3\x00", "not JSON"),
        (b"\x1f\x8b\xff\xfe", "not JSON"),
        (b"[]", "no backup"),
        (b'{"nodes": []}', "no backup"),
        (b'{"format": "llmgw-backup"}', "damaged"),
        (b'{"format": "llmgw-backup" "x"}', "damaged"),
        (b"[" * 100_000, "no backup"),
        (b'{"a":' * 100_000, "damaged"),
    ],
)
def test_other_files_are_refused_in_words(data, word):
    assert word in refused(data).message


@pytest.mark.parametrize("change", [("epoch", 5), ("schema", "0002"), ("tables", {})])
def test_any_change_of_the_content_is_noticed(file, change):
    data = json.loads(file)
    data["content"][change[0]] = change[1]
    assert "checksum" in refused(json.dumps(data).encode()).message


def test_a_newer_format_is_told_from_a_damaged_file(file):
    data = json.loads(file)
    data.update(format_version=2, llmgw="9.0.0", content="in another way")
    error = refused(json.dumps(data).encode())
    assert error.code == "backup_too_new"
    assert "9.0.0" in error.message
