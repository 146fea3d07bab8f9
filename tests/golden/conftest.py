"""Golden texts: what a test produces is compared with a file that a reviewer has read."""

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

EXPECTED = Path(__file__).parent / "expected"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with `expected/<name>`; `--update-golden` writes it there instead."""
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = EXPECTED / name
        text = text if text.endswith("\n") else text + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        expected = path.read_text() if path.exists() else ""
        if text != expected:
            diff = "".join(difflib.unified_diff(expected.splitlines(True), text.splitlines(True), "expected", "is"))
            pytest.fail(f"{path.name} differs; if the new text is right, run again with --update-golden\n{diff}")

    return check
