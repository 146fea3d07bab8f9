from pathlib import Path

import pytest

from llmgw.config.contexts import Context, Contexts, write_contexts
from llmgw.ctl.session import ApiAddress, find_api, segment
from llmgw.schema.errors import InvalidInput


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch):
    path = tmp_path / "ctl.toml"
    monkeypatch.setenv("LLMGW_CTL_CONFIG", str(path))
    monkeypatch.delenv("LLMGW_API", raising=False)
    write_contexts(
        path,
        Contexts(
            current="local",
            contexts={"local": Context(api="http://l", token="1"), "far": Context(api="http://f", token="2")},
        ),
    )


def test_the_current_context_is_used_and_another_can_be_named(contexts):
    assert find_api(None) == ApiAddress(root="http://l", token="1", ca_file=None)
    assert find_api("far") == ApiAddress(root="http://f", token="2", ca_file=None)


def test_the_environment_goes_before_the_file_but_not_before_a_named_context(contexts, monkeypatch):
    monkeypatch.setenv("LLMGW_API", "http://e")
    monkeypatch.setenv("LLMGW_TOKEN", "3")
    assert find_api(None) == ApiAddress(root="http://e", token="3", ca_file=None)
    assert find_api("far") == ApiAddress(root="http://f", token="2", ca_file=None)


def test_an_unknown_context_names_the_known_ones(contexts):
    with pytest.raises(InvalidInput) as caught:
        find_api("fra")
    assert caught.value.allowed == ("local", "far")


def test_nothing_known_says_what_to_do(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("LLMGW_CTL_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.delenv("LLMGW_API", raising=False)
    with pytest.raises(InvalidInput, match="no control plane is known") as caught:
        find_api(None)
    assert "llmgw up" in (caught.value.hint or "")


def test_a_name_with_a_slash_is_one_segment():
    assert segment("org/model:v1") == "org%2Fmodel%3Av1"
