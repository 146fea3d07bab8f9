"""Adapter of llama.cpp on CPUs, run by the launcher from the wheel xllamacpp."""

import ctypes
import importlib.metadata
import math
import re
import sys
from typing import TypeVar

import msgspec

from llmgw.engines import llamacpp_failures
from llmgw.engines.adapter import Launch, Started
from llmgw.engines.llamacpp_flags import BITS_PER_CACHE_ELEMENT
from llmgw.engines.llamacpp_profile import check_profile
from llmgw.engines.llamacpp_settings import PROGRESS_MARK, READY_MARK, Progressing, Settings
from llmgw.schema.desired import DesiredShard
from llmgw.schema.engine import EngineInstall, EngineKind, EngineState
from llmgw.schema.model import Profile, Role
from llmgw.schema.node import Host
from llmgw.schema.plan import Claim
from llmgw.schema.report import Death
from llmgw.schema.weights import Weights

T = TypeVar("T")

_WHEEL = "xllamacpp"
_MIB = 2**20

_SLOTS = {Role.CHAT: 4, Role.GUARD: 4, Role.EMBED: 2, Role.RERANK: 2}
_CONTEXT = {Role.CHAT: 4096, Role.GUARD: 4096, Role.EMBED: 2048, Role.RERANK: 2048}
"""Tokens per slot where the profile says nothing and the model was trained for at least as many. Less where a text
is computed whole, which takes time and memory with its length."""
_FLAGS = {
    Role.CHAT: {"cache_ram_mib": "256"},
    Role.GUARD: {"cache_ram_mib": "256"},
    Role.EMBED: {"cache_ram_mib": "0", "pooling": "mean"},
    Role.RERANK: {"cache_ram_mib": "0"},
}
"""What is shown where the operator says nothing. cache_ram_mib is for prompts that lost their slot; llama.cpp's own
default, 8 GiB, would be a claim larger than most models'."""
_OVERHEAD_BYTES = 64 * _MIB
"""Python, the server and its buffers: 45 MB with a tiny model, 60 MB with one of 135 million parameters."""
_HEAD_BYTES = 8
"""Embedding by a model with an output head computes the head for every token of a text, and copies it: two numbers
of four bytes for each token of the vocabulary (measured: 0.39 MB per token of a text at a vocabulary of 49,152)."""

_GENERATION = frozenset({"/v1/chat/completions", "/v1/chat/completions/input_tokens", "/v1/completions", "/v1/models"})
_PATHS = {
    Role.CHAT: _GENERATION,
    Role.GUARD: _GENERATION,
    Role.EMBED: frozenset({"/v1/embeddings", "/v1/models"}),
    Role.RERANK: frozenset({"/v1/rerank", "/v1/models"}),
}
"""`/v1/models` tells a gateway that the engine is there, while the node's agent does not."""

_READY_LINE = re.compile(rf"^{READY_MARK}(.+)$", re.MULTILINE)
_PROGRESS_LINE = re.compile(rf"^{PROGRESS_MARK}(.+)$", re.MULTILINE)


class LlamaCpp:
    """llama.cpp on CPUs."""

    @property
    def kind(self) -> EngineKind:
        """The engine this adapter is for."""
        return EngineKind.LLAMACPP

    def version(self) -> str | None:
        """Version of the wheel: the engine itself says only "unknown"."""
        try:
            return importlib.metadata.version(_WHEEL)
        except importlib.metadata.PackageNotFoundError:
            return None

    def probe(self, host: Host) -> EngineInstall | None:
        """Say whether this machine can run the wheel's fixed build: x86-64 with AVX2, and libgomp."""
        version = self.version()
        if version is None:
            return None
        problem = _cpu_problem(host) or _library_problem()
        state = EngineState.READY if problem is None else EngineState.UNSUPPORTED
        return EngineInstall(kind=self.kind, version=version, variant="cpu", state=state, reason=problem)

    def paths(self, role: Role) -> frozenset[str]:
        """Name the inference paths a gateway may ask."""
        return _PATHS[role]

    def check(self, profile: Profile, role: Role) -> None:
        """Raise `InvalidInput` for a profile llama.cpp cannot run on a CPU."""
        check_profile(profile, role)

    def resolve(self, profile: Profile, role: Role, weights: Weights | None, cores_usable: float | None) -> Profile:
        """Fill in context (rounded up as llama.cpp does), slots, cores and the prompt cache."""
        trained = weights.context_length if weights is not None else None
        context = profile.context or min(trained or _CONTEXT[role], _CONTEXT[role])
        cores = profile.cores if profile.cores is not None else min(1.0, cores_usable or 1.0)
        return msgspec.structs.replace(
            profile,
            variant=profile.variant or "cpu",
            context=math.ceil(context / 256) * 256,
            slots=profile.slots or _SLOTS[role],
            cores=cores,
            flags={**_FLAGS[role], **profile.flags},
        )

    def claim(self, profile: Profile, weights: Weights | None) -> Claim:
        """Say what one shard of the resolved profile needs: weights, their cache for all slots, and the rest."""
        return Claim(cores=profile.cores, memory_bytes=_memory(profile, weights))

    def launch(self, shard: DesiredShard, *, log_verbosity: int) -> Launch:
        """Say how to start the shard: the launcher, with settings and key on standard input."""
        profile = self.resolve(shard.profile, shard.role, None, None)
        self.check(profile, shard.role)
        assert profile.context is not None, "resolve fills it in"  # noqa: S101 - for the type checker
        assert profile.slots is not None, "resolve fills it in"  # noqa: S101 - for the type checker
        settings = Settings(
            shard=shard.id,
            model=shard.model,
            path=shard.source,
            role=shard.role,
            key=shard.key,
            context=profile.context,
            slots=profile.slots,
            threads=max(1, math.floor(profile.cores or 1)),
            # Below 2 the log of a failed start has no cause.
            verbosity=max(2, log_verbosity),
            grace_s=shard.grace_s,
            chat_template=profile.chat_template,
            flags=profile.flags,
        )
        # -P: a file named llmgw.py in the working directory is not ours.
        argv = (sys.executable, "-P", "-m", "llmgw.engines.llamacpp_launcher", shard.id)
        # Without spinning, speed does not collapse when another process wants the cores.
        env = {"GOMP_SPINCOUNT": "0", **profile.env}
        return Launch(argv=argv, env=env, stdin=msgspec.json.encode(settings))

    def starting(self, log_text: str) -> str | None:
        """Say what the launcher is doing."""
        progress = _last(_PROGRESS_LINE, log_text, Progressing)
        return progress.doing if progress is not None else None

    def ready_line(self, log_text: str) -> Started | None:
        """Read where the launcher listens."""
        return _last(_READY_LINE, log_text, Started)

    def failure(self, status: int | None, log_text: str) -> Death:
        """Explain an end nobody asked for."""
        return llamacpp_failures.explain(status, log_text)


def _last(pattern: re.Pattern[str], log_text: str, kind: type[T]) -> T | None:
    """Read the last marked line; a line still being written is not there yet."""
    lines = pattern.findall(log_text)
    if not lines:
        return None
    try:
        return msgspec.json.decode(lines[-1], type=kind)
    except msgspec.DecodeError:
        return None


def _cpu_problem(host: Host) -> str | None:
    if host.machine not in {"x86_64", "AMD64"}:
        return f"the wheel {_WHEEL} is built for x86-64; this machine is {host.machine}"
    if "avx2" not in host.cpu_flags:
        return f"the wheel {_WHEEL} needs a CPU with AVX2; {host.cpu_model or 'this one'} has none"
    return None


def _library_problem() -> str | None:
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        return "the library libgomp.so.1 is missing; install it with: apt install libgomp1"
    return None


def _memory(profile: Profile, weights: Weights | None) -> int | None:
    if profile.memory_gb is not None:
        return round(profile.memory_gb * 2**30)
    if weights is None or profile.context is None or profile.slots is None:
        return None
    tokens = profile.context * profile.slots
    if weights.kv_bytes_per_token is None:
        # The header does not tell: as much again as the weights, which is more than most models need.
        cache = weights.size_bytes
    else:
        cache = math.ceil(weights.kv_bytes_per_token * tokens * _cache_ratio(profile))
    prompts = profile.flags.get("cache_ram_mib", "0")
    # Flags are checked where they come in; a claim is asked for every model again and again, and must not fail.
    kept = int(prompts) * _MIB if prompts.isdecimal() else 0
    head = _HEAD_BYTES * (weights.vocabulary or 0) * profile.context if "pooling" in profile.flags else 0
    total = weights.size_bytes + cache + kept + head + _OVERHEAD_BYTES
    return math.ceil(total / _MIB) * _MIB


def _cache_ratio(profile: Profile) -> float:
    """Size of the key and value cache against f16; half of it are keys."""
    kinds = [profile.flags.get(flag, "f16") for flag in ("cache_type_k", "cache_type_v")]
    return sum(BITS_PER_CACHE_ELEMENT.get(kind, 16.0) for kind in kinds) / 32.0
