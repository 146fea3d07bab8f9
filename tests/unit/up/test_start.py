from pathlib import Path

import pytest

from llmgw.schema.errors import InvalidInput
from llmgw.up.demo import model_name
from llmgw.up.start import resolve_source


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch):
    (tmp_path / "model.gguf").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve_source("model.gguf") == str(tmp_path / "model.gguf")


def test_absent_weights_are_refused():
    with pytest.raises(InvalidInput, match="no weights at /nowhere/x"):
        resolve_source("/nowhere/x")


def test_a_hub_source_passes_as_it_is():
    assert resolve_source("hf:org/repo@main:file.gguf") == "hf:org/repo@main:file.gguf"


def test_a_name_comes_from_the_file_unless_it_is_given():
    assert model_name("/srv/Qwen3-8B-Q4.gguf", None) == "qwen3-8b-q4"
    assert model_name("/srv/Qwen3-8B-Q4.gguf", "qwen") == "qwen"
