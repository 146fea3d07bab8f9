from pathlib import Path

import pytest

from llmgw.schema.errors import InvalidInput
from llmgw.up.demo import model_name
from llmgw.up.layout import Request
from llmgw.up.start import resolve_source, start


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch):
    (tmp_path / "model.gguf").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve_source("model.gguf") == str(tmp_path / "model.gguf")


def test_absent_weights_are_refused():
    with pytest.raises(InvalidInput, match="no weights at /nowhere/x"):
        resolve_source("/nowhere/x")


def test_a_folder_is_no_model(tmp_path: Path):
    with pytest.raises(InvalidInput, match="is a folder"):
        resolve_source(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "a b"}, "--name 'a b' is no name for a model"),
        ({"name": "../x"}, "is no name for a model"),
        ({"gateway_port": 9000, "api_port": 9000}, "--gateway-port and --api-port are both 9000"),
        ({"data_dir": Path("/proc/none")}, "data_dir = '/proc/none' cannot be made"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(tmp_path: Path, changes, words):
    folder = tmp_path / "data"
    asked = {"data_dir": folder, "gateway_port": None, "api_port": None, "model": None, "name": None, **changes}
    with pytest.raises(InvalidInput, match=words):
        start(Request(**asked))
    assert not folder.exists()


def test_a_hub_source_passes_as_it_is():
    assert resolve_source("hf:org/repo@main:file.gguf") == "hf:org/repo@main:file.gguf"


def test_a_name_comes_from_the_file_unless_it_is_given():
    assert model_name("/srv/Qwen3-8B-Q4.gguf", None) == "qwen3-8b-q4"
    assert model_name("/srv/Qwen3-8B-Q4.gguf", "qwen") == "qwen"
