import json
from datetime import UTC, datetime, timedelta

import pytest

from llmgw.ctl.output import age, ago, dump, fields, size, table


def test_columns_are_aligned_and_unknown_is_a_dash():
    text = table(("NODE", "STATE", "MEMORY"), [("a", "ready", None), ("longer-name", "lost", "2.0 GiB")], empty="none")
    assert text == (
        "NODE         STATE  MEMORY\n"
        "a            ready  -\n"
        "longer-name  lost   2.0 GiB"
    )  # fmt: skip


def test_no_rows_say_so():
    assert table(("NODE",), [], empty="no node has joined yet") == "no node has joined yet"


def test_nothing_is_cut_when_the_output_goes_elsewhere():
    assert "x" * 500 in table(("REASON",), [("x" * 500,)], empty="")


def test_fields_leave_out_what_is_not_known():
    assert fields([("state", "ready"), ("reason", None), ("role", "chat")]) == "state  ready\nrole   chat"


@pytest.mark.parametrize(
    ("count", "text"), [(None, None), (0, "0 MiB"), (94 * 1024**2, "94 MiB"), (3 * 1024**3 // 2, "1.5 GiB")]
)
def test_sizes(count, text):
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7_199, "1 h"), (200_000, "2 d")]
)
def test_ages(seconds, text):
    assert age(datetime.now(UTC) - timedelta(seconds=seconds, milliseconds=100)) == text


def test_an_unknown_moment_has_no_age():
    assert age(None) is None
    assert ago(None) is None


def test_json_and_yaml_hold_the_same():
    answer = {"nodes": [{"id": "é"}]}
    assert json.loads(dump(answer, "json")) == answer
    assert dump(answer, "yaml") == "nodes:\n- id: é\n"
