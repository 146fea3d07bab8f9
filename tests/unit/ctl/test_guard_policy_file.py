import io

import pytest

from llmgw.ctl.guard_policy_file import read_policies
from llmgw.schema.errors import InvalidInput


def test_yaml_and_json_are_read_from_a_file_or_standard_input(tmp_path, monkeypatch):
    file = tmp_path / "p.yaml"
    file.write_text("policies:\n- name: p\n")
    assert read_policies(str(file)) == {"policies": [{"name": "p"}]}
    monkeypatch.setattr("sys.stdin", io.StringIO('{"policies": []}'))
    assert read_policies("-") == {"policies": []}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("policies: [", "is not YAML: .* line 1"),
        ("rules: []", "does not say policies"),
        ("- policies", "does not say policies"),
        ("", "does not say policies"),
        ("policies: 2026-01-01", "date"),
    ],
)
def test_what_is_no_file_of_policies_is_refused_with_what_to_do(tmp_path, text, words):
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=words):
        read_policies(str(file))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(InvalidInput, match=r"cannot read /nowhere/p\.yaml"):
        read_policies("/nowhere/p.yaml")
