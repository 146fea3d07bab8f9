import errno
import os
import stat
from pathlib import Path

import pytest

from llmgw.config.contexts import (
    Context,
    Contexts,
    contexts_path,
    read_contexts,
    replace_private,
    write_contexts,
)


def test_what_is_written_is_read_again_and_private(tmp_path: Path):
    path = tmp_path / "folder" / "ctl.toml"
    contexts = Contexts(
        current="local",
        contexts={
            "local": Context(api="http://127.0.0.1:8800", token='quo"te'),
            "two words": Context(api="http://x", token="t"),
        },
    )
    write_contexts(path, contexts)
    assert read_contexts(path) == contexts
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["ctl.toml"], "nothing temporary is left"


def test_no_file_is_no_contexts(tmp_path: Path):
    assert read_contexts(tmp_path / "none.toml") == Contexts()


def test_the_environment_names_another_file(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("LLMGW_CTL_CONFIG", str(tmp_path / "x.toml"))
    assert contexts_path() == tmp_path / "x.toml"


def test_a_file_that_cannot_be_replaced_stays_and_leaves_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "file"
    replace_private(path, "old")

    def full(_handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_private(path, "new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("file", "old")]
