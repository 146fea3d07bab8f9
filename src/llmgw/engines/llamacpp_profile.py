"""Which profiles llama.cpp can run on a CPU."""

from llmgw.engines.flags import parse, span
from llmgw.engines.llamacpp_flags import FLAGS, GENERATING_BATCH
from llmgw.schema.errors import InvalidInput
from llmgw.schema.model import Profile, Role

_MOST_SLOTS = 256
"""llama.cpp's own limit (n_seq_max)."""
_MOST_CONTEXT = 4 * 1_048_576
_MOST_CORES = 512
"""llama.cpp's own limit of threads."""
_MOST_TEMPLATE = 64 * 1024

_ENV = (
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "MALLOC_ARENA_MAX",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_WAIT_POLICY",
)
"""Variables that tune and cannot load code: GGML_BACKEND_PATH or LD_PRELOAD would run anything as the agent's user."""


def check_profile(profile: Profile, role: Role) -> None:
    """Raise `InvalidInput` naming the field and what is allowed."""
    _check_shape(profile)
    _check_range("context", profile.context, 1, _MOST_CONTEXT)
    _check_range("slots", profile.slots, 1, _MOST_SLOTS)
    _check_range("cores", profile.cores, 0.1, _MOST_CORES)
    _check_range("memory_gb", profile.memory_gb, 0.01, 65_536)
    _check_template(profile.chat_template)
    _check_env(profile)
    parse(profile.flags, FLAGS, role)
    _check_batches(profile)
    _check_cache_types(profile)


def _check_shape(profile: Profile) -> None:
    """One node, no devices: the wheel runs on the CPU only."""
    fixed: tuple[tuple[str, object, tuple[object, ...]], ...] = (
        ("nodes", profile.nodes, (1,)),
        ("devices_per_node", profile.devices_per_node, (0,)),
        ("class", profile.device_class, (None, "cpu")),
        ("variant", profile.variant, (None, "cpu")),
        ("fabric", profile.fabric, (None,)),
    )
    for field, value, allowed in fixed:
        if value in allowed:
            continue
        words = tuple(str(one) for one in allowed if one is not None)
        raise InvalidInput(
            f"llama.cpp cannot run with {field} = {value!r}: it runs on the CPU of one node",
            hint=f"set {field} to {words[0]}, or leave it out" if words else f"leave {field} out",
            field=field,
            allowed=words,
        )


def _check_range(field: str, value: float | None, low: float, high: float) -> None:
    if value is None or low <= value <= high:
        return
    allowed = span(low, high)
    raise InvalidInput(
        f"{field} = {value:g} is not within llama.cpp's limits",
        hint=f"give {field} a value of {allowed}",
        field=field,
        allowed=(allowed,),
    )


def _check_template(template: str | None) -> None:
    """A name of a built-in template would silently become the text of every prompt."""
    if template is None:
        return
    if len(template) <= _MOST_TEMPLATE and "{" in template and "}" in template:
        return
    raise InvalidInput(
        "chat_template is not the text of a Jinja template",
        hint=f"give the template itself, up to {_MOST_TEMPLATE} characters, or leave it out for the model's own",
        field="chat_template",
    )


def _check_env(profile: Profile) -> None:
    for name in profile.env:
        if name in _ENV:
            continue
        raise InvalidInput(
            f"the environment variable {name!r} may not be set on llama.cpp",
            hint=f"allowed: {', '.join(_ENV)}",
            field=f"env.{name}",
            allowed=_ENV,
        )


def _check_batches(profile: Profile) -> None:
    batch = int(profile.flags.get("n_batch", GENERATING_BATCH))
    part = int(profile.flags.get("n_ubatch", 0))
    if part <= batch:
        return
    raise InvalidInput(
        f"flag n_ubatch = {part} is above n_batch = {batch}",
        hint="a part cannot be larger than the whole: lower n_ubatch or raise n_batch",
        field="flags.n_ubatch",
    )


def _check_cache_types(profile: Profile) -> None:
    values, fused = profile.flags.get("cache_type_v", "f16"), profile.flags.get("flash_attn", "auto")
    if fused != "false" or values in {"f32", "f16", "bf16"}:
        return
    raise InvalidInput(
        f"flag cache_type_v = {values} needs fused attention",
        hint="set flash_attn to true, or cache_type_v to f16",
        field="flags.cache_type_v",
    )
