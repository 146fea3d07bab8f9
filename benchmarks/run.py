"""`make bench`: measure the data plane. JSON lines on standard output, tables on standard error.

With the harness at $BENCH_HARNESS (default ../shared/bench) the gateway runs beside nginx, Envoy, sglang-router, smg
and vllm-router, all in one run on one machine: what a request costs, then how soon answers begin on two traces. After
that come the project's own micro-benchmarks. Without the harness only these, and it says so.

    make bench                                  # about 40 minutes, of which the traces take 30
    make bench BENCH_ARGS='--only overhead'     # what a request costs: about 10 minutes
    make bench BENCH_ARGS='--rounds 1 --quick'  # about 4 minutes: does it run at all?
    make bench BENCH_ARGS=--write               # and keep the tables in benchmarks/README.md
"""

import argparse
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import readme, verdicts
from benchmarks.environment import Environment, Unavailable, build

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "bench"
MICRO = ("relay", "gateway", "slow_clients")
QUIET_LOAD = 0.7
"""Load average beyond which figures of a two-core machine are doubtful."""
_MICRO_S = 150.0
_REPLAYED = ("nginx", "sglang-router", "smg", "vllm-router")
"""Envoy goes round as nginx does."""
_BEST = re.compile(r"best possible hit ([0-9.]+)")

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Beside:
    """What a run beside other routers gave; empty when there was none."""

    lines: tuple[Line, ...] = ()
    table: tuple[str, ...] = ()
    traces: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The tables of the traces."""
    versions: dict[str, str] = field(default_factory=dict)


def main() -> int:
    """Run what is asked; 1 when a part failed, or when a figure is missed under `--check`."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _warn_if_busy()
    failed: list[str] = []
    beside = _beside(options, failed) if options.only != "micro" else Beside()
    micro = _alone(options, failed) if options.only in (None, "micro") else []
    found = [_print(one) for one in (*verdicts.overhead(beside.lines), *verdicts.replay(beside.lines))]
    text = readme.sections(beside.table, beside.traces, micro, found, beside.versions)
    print(text, *(f"bench: {failure}" for failure in failed), sep="\n", file=sys.stderr)
    if options.write and not failed:
        readme.write(ROOT / "benchmarks" / "README.md", text)
    missed = options.check and not all(verdict["held"] for verdict in found)
    return 1 if failed or missed else 0


def _beside(options: argparse.Namespace, failed: list[str]) -> Beside:
    """Measure the gateway beside other routers, as far as they can be had."""
    harness = Path(os.environ.get("BENCH_HARNESS") or ROOT.parent / "shared" / "bench").resolve()
    try:
        environment = _environment(harness)
    except Unavailable as error:
        _print({"left_out": f"the comparison with other routers: {error}"})
        return Beside()
    for text in environment.left_out:
        _print({"left_out": text})
    lines: list[Line] = []
    table: list[str] = []
    traces: dict[str, tuple[str, ...]] = {}
    try:
        if options.only != "replay":
            table = _read(_overhead(harness, environment, options), lines, {})
        for trace in verdicts.HITS if options.only != "overhead" else ():
            traces[trace] = tuple(_read(_replay(harness, environment, options, trace), lines, {"trace": trace}))
    except subprocess.SubprocessError as error:
        failed.append(str(error))
    return Beside(tuple(lines), tuple(table), traces, environment.versions)


def _read(output: Iterable[str], lines: list[Line], more: Line) -> list[str]:
    """Take in what a part of the harness says: its figures into `lines`; gives its table."""
    table = []
    for text in output:
        best = _BEST.search(text)
        if best is not None:
            more = more | {"best": float(best[1])}
        elif text.startswith("{"):
            lines.append(_print(json.loads(text) | more))
        elif text.startswith("|"):
            table.append(text)
    return table


def _alone(options: argparse.Namespace, failed: list[str]) -> list[Line]:
    """Run the project's own micro-benchmarks."""
    lines: list[Line] = []
    for name in MICRO:
        try:
            lines += [_print(json.loads(text)) for text in _micro(name, options)]
        except subprocess.SubprocessError as error:
            failed.append(str(error))
    return lines


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the harness; medians are shown")
    parser.add_argument("--quick", action="store_true", help="short measurements: the figures mean little")
    parser.add_argument("--write", action="store_true", help="keep the tables in benchmarks/README.md")
    parser.add_argument("--check", action="store_true", help="fail when a figure of the project is not held")
    parser.add_argument("--only", choices=("overhead", "replay", "micro"), help="one part")
    return parser.parse_args()


def _environment(harness: Path) -> Environment:
    if not (harness / "overhead.py").exists():
        raise Unavailable(f"there is no harness at {harness}; $BENCH_HARNESS names its folder")
    return build(harness, CACHE)


def _overhead(harness: Path, environment: Environment, options: argparse.Namespace) -> Iterator[str]:
    """Run the harness's `overhead.py` over peers and gateway, and give its output line by line."""
    key = f"lk_benchmrk_{secrets.token_hex(16)}"
    python = Path(sys.executable)
    targets = {
        "llmgw": f"{python.parent}/llmgw gateway --port {{port}} --model mock --engine {{engines_csv}}",
        "llmgw in a fleet": (
            f"{python} {ROOT}/benchmarks/fleet_gateway.py --port {{port}} --dir {{dir}} --engines {{engines_csv}}"
        ),
    }
    command = [str(environment.python), str(harness / "overhead.py"), f"--rounds={options.rounds}"]
    command += ["--peers", ",".join(environment.peers)]
    command += [word for name, start in targets.items() for word in ("--custom", f"{name}={start}")]
    command += ["--seconds=1", "--chunks=50"] if options.quick else []
    # 17 s a target and round, and up to 90 s for each start.
    limit_s = 120.0 + (len(environment.peers) + len(targets) + 1) * (30 * options.rounds + 20)
    variables = environment.variables | {"BENCH_KEY": key, "LLMGW_GATEWAY_KEY": key}
    yield from _lines(command, limit_s, variables)


def _replay(harness: Path, environment: Environment, options: argparse.Namespace, trace: str) -> Iterator[str]:
    """Run the harness's `replay.py` over a trace, through one gateway and through four that share what they know."""
    with tempfile.TemporaryDirectory() as share:
        start = (
            f"{Path(sys.executable).parent}/llmgw gateway --port {{port}} --model mock --engine {{engines_csv}}"
            f" --share {share}"
        )
        peers = [peer for peer in environment.peers if peer in _REPLAYED]
        command = [str(environment.python), str(harness / "replay.py"), "--trace", trace, "--copies", "1,4"]
        command += ["--peers", ",".join(peers), "--custom", f"llmgw={start}"]
        command += ["--limit", "400" if options.quick else "4000"]
        yield from _lines(command, 120.0 + 2 * (len(peers) + 1) * 240, environment.variables)


def _micro(name: str, options: argparse.Namespace) -> Iterator[str]:
    quick = ["--seconds=1"] if options.quick else []
    quick += ["--rounds=1"] if options.quick and name == "slow_clients" else []
    yield from _lines([sys.executable, "-m", f"benchmarks.micro.{name}", *quick], _MICRO_S, dict(os.environ))


def _lines(command: list[str], limit_s: float, variables: dict[str, str]) -> Iterator[str]:
    """Give a program's output line by line; end it after `limit_s`. Raises `CalledProcessError`."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables, cwd=ROOT)
    watchdog = threading.Timer(limit_s, process.terminate)
    watchdog.start()
    try:
        if process.stdout is not None:
            yield from map(str.rstrip, process.stdout)
        status = process.wait()
    finally:
        watchdog.cancel()
        process.terminate()
        process.wait()
    if status:
        raise subprocess.CalledProcessError(status, command[:3])


def _print(line: Line) -> Line:
    print(json.dumps(line), flush=True)
    return line


def _warn_if_busy() -> None:
    load = os.getloadavg()[0]
    if load > QUIET_LOAD:
        print(f"bench: the load average is {load:.1f}: others work here too, so read figures as rough", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
