"""The tree keeps its shape: small files, documented packages, no build products, no words that do not belong."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "llmgw"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if "migrations" not in path.parts)

MOST_LINES = 400
"""Files of about 300 lines: past 400 there is a second noun in it."""


def _tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in done.stdout.splitlines()]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_is_short_and_says_what_it_is(path: Path):
    text = path.read_text()
    assert len(text.splitlines()) <= MOST_LINES, f"{path} is long: look for the second noun in it"
    assert ast.get_docstring(ast.parse(text)), f"{path} has no docstring"


def test_no_module_works_at_import():
    """Every module can be imported with sockets, processes and files for writing blocked."""
    names = [
        ".".join(("llmgw", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for path in MODULES
        if path.name != "__main__.py"
    ]
    script = f"""
import importlib, socket, subprocess, sys
def refuse(*args, **kwargs): raise RuntimeError("work at import")
import asyncio, uvloop, ssl, sqlalchemy, aiohttp, websockets, uvicorn, prometheus_client, psutil
socket.socket.connect = socket.socket.bind = subprocess.Popen.__init__ = refuse
for name in {names!r}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_build_products_are_tracked():
    assert [path for path in _tracked() if path.suffix in {".pyc", ".so"} or "__pycache__" in path.parts] == []


def test_requirements_have_hashes_and_no_index_address():
    for path in (ROOT / "requirements").glob("*.txt"):
        text = path.read_text()
        assert "--hash=sha256:" in text, path
        assert "://" not in text, path


def test_no_path_of_a_developers_machine_is_in_a_tracked_file():
    forbidden = re.compile("/" + "work/|/" + "root/")
    texts = {".py", ".md", ".toml", ".sh", ".html", ".css", ".txt", ".yml", ".json", ""}
    found = []
    for path in _tracked():
        if path.suffix not in texts or "fixtures" in path.parts or not path.is_file():
            continue
        found += [str(path) for line in path.read_text(errors="ignore").splitlines() if forbidden.search(line)]
    assert found == []


def test_wire_and_stored_values_are_frozen():
    for path in (SOURCE / "schema").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Value" for base in node.bases):
                keywords = {keyword.arg for keyword in node.keywords}
                assert {"frozen", "kw_only"} <= keywords, f"{path}: {node.name}"
