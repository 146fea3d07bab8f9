"""Documentation is in step with the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from llmgw.cli.config import _KINDS
from llmgw.config.example import field_texts, render
from llmgw.config.load import parse

ROOT = Path(__file__).parents[2]


def test_the_reference_is_what_the_code_says():
    done = subprocess.run(
        [sys.executable, "scripts/reference.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("process", sorted(_KINDS))
def test_an_example_configuration_is_a_valid_one(process: str):
    parse(_KINDS[process], render(_KINDS[process], process), where="example")


@pytest.mark.parametrize("process", sorted(_KINDS))
def test_every_commented_key_of_an_example_is_valid_when_it_is_set(process: str):
    lines = [
        re.sub(r"^# ([a-z_]+ = |\[\[)", r"\1", line)
        for line in render(_KINDS[process], process).splitlines()
        if not line.endswith('= ""')
    ]
    parse(_KINDS[process], "\n".join(lines), where="example")


def test_links_between_pages_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def test_at_least_the_opaque_keys_have_a_text():
    for process, kind in _KINDS.items():
        assert "data_dir" in field_texts(kind), process
