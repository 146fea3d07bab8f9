"""A stranger's path: the README followed word for word on a clean clone."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from llmgw.testing.counting_model import write_counting_model

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_readme_works_on_a_clean_clone(new_up: Callable, tmp_path: Path):
    """Both commands' blocks; `make test` is what runs this test, so only its target is looked for."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=120)
    readme = (clone / "README.md").read_text()
    first, second, *_ = re.findall(r"^```sh\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make up", "make test"]

    up = new_up()
    weights = tmp_path / "qwen3-8b-q4_k_m.gguf"
    write_counting_model(weights, last=20)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        "LLMGW_DATA_DIR": str(up.root / "data"),
        "LLMGW_CTL_CONFIG": str(up.root / "ctl.toml"),
        "LLMGW_GATEWAY_PORT": str(up.gateway_port),
        "LLMGW_API_PORT": str(up.api_port),
    }

    front = subprocess.Popen(["make", "up"], cwd=clone, env=env, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        printed = ""
        while "Logs" not in printed:
            line = front.stdout.readline()
            assert line, "make up ended before it printed how to use it"
            printed += line
        curl = re.search(r"  curl .*?'\n", printed, re.DOTALL).group(0)
        answer = subprocess.run(["sh", "-c", curl], capture_output=True, text=True, check=True, timeout=120)
        assert "Paris" in answer.stdout
    finally:
        os.kill(up.pid("supervisor"), 0)
        (front_pid,) = [int(pid) for pid in _children(front.pid)] or [front.pid]
        os.kill(front_pid, signal.SIGINT)
        front.communicate(timeout=120)
    assert up.processes() == {}, "Ctrl-C stops everything"

    shutil.rmtree(up.root / "data")
    for line in second.splitlines():
        command = line.replace("/srv/models/qwen3-8b-q4_k_m.gguf", str(weights))
        done = subprocess.run(["sh", "-c", command], cwd=clone, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert up.processes() == {}


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
