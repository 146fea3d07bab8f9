"""`make bench` without its harness, as a machine without one runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_without_the_harness_the_micro_benchmarks_run_and_what_is_left_out_is_said(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", "--quick"],
        cwd=ROOT,
        env=os.environ | {"BENCH_HARNESS": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    assert str(tmp_path / "none") in lines[0]["left_out"]
    measured = [(line["target"], line["what"], line.get("connections")) for line in lines[1:]]
    assert measured == [
        *(
            (target, what, connections)
            for target in ("relay", "gateway")
            for what, connections in (("cpu_us_per_request", 1), ("cpu_us_per_request", 16), ("cpu_us_per_chunk", 64))
        ),
        ("gateway", "p99_ms_beside_slow_clients", None),
    ]
    assert all(line["value"] > 0 for line in lines[1:])
    assert "| gateway | cpu us per chunk | 64 |" in run.stderr
