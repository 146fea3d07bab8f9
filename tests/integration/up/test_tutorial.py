"""Every command of the tutorial is run, in order, as it stands there."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from llmgw.testing.counting_model import write_counting_model

ROOT = Path(__file__).parents[3]
PLACEHOLDER = "/path/to/model.gguf"


def commands(page: Path) -> list[str]:
    """Lines of all `sh` blocks, continued lines joined; what changes the machine itself is left out."""
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]
    return [line for line in lines if not line.startswith("apt-get")]


def test_the_tutorial_works_line_by_line(new_up: Callable, tmp_path: Path):
    up = new_up()
    weights = tmp_path / "model.gguf"
    write_counting_model(weights, last=20)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        "LLMGW_DATA_DIR": str(up.root / "data"),
        "LLMGW_CTL_CONFIG": str(up.root / "ctl.toml"),
        "LLMGW_GATEWAY_PORT": str(up.gateway_port),
        "LLMGW_API_PORT": str(up.api_port),
    }
    outputs = {}
    for line in commands(ROOT / "docs" / "tutorial.md"):
        done = subprocess.run(
            ["sh", "-c", line.replace(PLACEHOLDER, str(weights))],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        outputs[line] = done.stdout
    assert "API key" in outputs["make up UP_ARGS=--detach"]
    assert "1 of 1 satisfied" in outputs[".venv/bin/llmgw ctl status"]
    assert outputs[".venv/bin/llmgw ctl key create colleague"].startswith("lk_")
    assert up.processes() == {}, "the last command stops everything"
