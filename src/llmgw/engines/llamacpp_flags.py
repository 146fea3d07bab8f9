"""llama.cpp's flags that an operator may set. Names follow llama-server's options with underscores.

Targets are attributes of `CommonParams` in the wheel xllamacpp 2026.10; `tests/unit/engines/test_llamacpp_flags.py`
holds them against the installed one.
"""

from collections.abc import Mapping
from types import MappingProxyType

from llmgw.engines.flags import Flag, FlagKind
from llmgw.schema.model import Role

GENERATING_BATCH = 256
"""Tokens. A prompt can only be cancelled between batches; smaller ones cost speed, larger ones gain none on CPUs."""

_GENERATING = frozenset({Role.CHAT, Role.GUARD})

_CACHE_TYPES = {
    name: f"GGML_TYPE_{name.upper()}" for name in ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
}

BITS_PER_CACHE_ELEMENT = {
    "f32": 32.0,
    "f16": 16.0,
    "bf16": 16.0,
    "q8_0": 8.5,
    "q5_1": 6.0,
    "q5_0": 5.5,
    "q4_1": 5.0,
    "q4_0": 4.5,
}
"""Bits of one cached number by type: blocks of 32 numbers with their scales."""

_FLAGS = (
    Flag(
        name="cache_ram_mib",
        kind=FlagKind.INT,
        target="cache_ram_mib",
        low=0,
        high=1_048_576,
        help="MiB of memory that keep prompts which lost their slot; claimed on the node",
    ),
    Flag(
        name="n_batch",
        kind=FlagKind.INT,
        target="n_batch",
        low=32,
        high=8192,
        roles=_GENERATING,
        help="tokens of a prompt between two looks for other work; small ones are cancelled sooner",
    ),
    Flag(
        name="n_ubatch",
        kind=FlagKind.INT,
        target="n_ubatch",
        low=32,
        high=8192,
        roles=_GENERATING,
        help="tokens of a prompt computed at once, at most n_batch",
    ),
    Flag(
        name="threads_batch",
        kind=FlagKind.INT,
        target="cpuparams_batch.n_threads",
        low=1,
        high=512,
        help="threads for prompts; default as many as cores",
    ),
    Flag(
        name="flash_attn",
        kind=FlagKind.CHOICE,
        target="flash_attn_type",
        enum="llama_flash_attn_type",
        choices={
            "true": "LLAMA_FLASH_ATTN_TYPE_ENABLED",
            "false": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
            "auto": "LLAMA_FLASH_ATTN_TYPE_AUTO",
        },
        help="fused attention; needed for a quantised value cache",
    ),
    Flag(
        name="cache_type_k",
        kind=FlagKind.CHOICE,
        target="cache_type_k",
        enum="ggml_type",
        choices=_CACHE_TYPES,
        help="number format of the key cache",
    ),
    Flag(
        name="cache_type_v",
        kind=FlagKind.CHOICE,
        target="cache_type_v",
        enum="ggml_type",
        choices=_CACHE_TYPES,
        help="number format of the value cache",
    ),
    Flag(
        name="swa_full",
        kind=FlagKind.BOOL,
        target="swa_full",
        help="full cache for sliding-window layers, so that old prompts can be reused",
    ),
    Flag(
        name="rope_scaling",
        kind=FlagKind.CHOICE,
        target="rope_scaling_type",
        enum="llama_rope_scaling_type",
        choices={name: f"LLAMA_ROPE_SCALING_TYPE_{name.upper()}" for name in ("none", "linear", "yarn")},
        help="how positions beyond the training context are stretched",
    ),
    Flag(
        name="rope_freq_base",
        kind=FlagKind.FLOAT,
        target="rope_freq_base",
        low=0,
        high=1e12,
        help="base frequency of rotary positions; 0 is the model's own",
    ),
    Flag(
        name="rope_freq_scale",
        kind=FlagKind.FLOAT,
        target="rope_freq_scale",
        low=0,
        high=1,
        help="factor on rotary positions; 0 is the model's own",
    ),
    Flag(
        name="yarn_orig_ctx",
        kind=FlagKind.INT,
        target="yarn_orig_ctx",
        low=0,
        high=1_048_576,
        help="training context that YaRN starts from; 0 is the model's own",
    ),
    Flag(
        name="cache_reuse",
        kind=FlagKind.INT,
        target="n_cache_reuse",
        low=0,
        high=65_536,
        roles=_GENERATING,
        help="least tokens of a shifted part of a prompt that are reused; 0 is off",
    ),
    Flag(
        name="slot_prompt_similarity",
        kind=FlagKind.FLOAT,
        target="slot_prompt_similarity",
        low=0,
        high=1,
        roles=_GENERATING,
        help="share of a prompt that must match a slot for the slot to be taken; 0 is off",
    ),
    Flag(
        name="reasoning_format",
        kind=FlagKind.CHOICE,
        target="reasoning_format",
        enum="common_reasoning_format",
        choices={
            "none": "COMMON_REASONING_FORMAT_NONE",
            "auto": "COMMON_REASONING_FORMAT_AUTO",
            "deepseek": "COMMON_REASONING_FORMAT_DEEPSEEK",
        },
        roles=_GENERATING,
        help="whether thoughts are given apart from the answer",
    ),
    Flag(
        name="load_mode",
        kind=FlagKind.CHOICE,
        target="load_mode",
        enum="llama_load_mode",
        choices={
            "auto": "LLAMA_LOAD_MODE_AUTO",
            "read": "LLAMA_LOAD_MODE_NONE",
            "mmap": "LLAMA_LOAD_MODE_MMAP",
            "mlock": "LLAMA_LOAD_MODE_MMAP_MLOCK",
        },
        help="how weights come into memory",
    ),
    Flag(
        name="numa",
        kind=FlagKind.CHOICE,
        target="numa",
        enum="ggml_numa_strategy",
        choices={
            "off": "GGML_NUMA_STRATEGY_DISABLED",
            "distribute": "GGML_NUMA_STRATEGY_DISTRIBUTE",
            "isolate": "GGML_NUMA_STRATEGY_ISOLATE",
        },
        help="placement of threads on machines with several memory nodes",
    ),
    Flag(
        name="warmup",
        kind=FlagKind.BOOL,
        target="warmup",
        help="one empty run before the engine calls itself ready",
    ),
    Flag(
        name="check_tensors",
        kind=FlagKind.BOOL,
        target="check_tensors",
        help="look for damaged numbers while loading; default for files below 256 MB",
    ),
    Flag(
        name="pooling",
        kind=FlagKind.CHOICE,
        target="pooling_type",
        enum="llama_pooling_type",
        choices={name: f"LLAMA_POOLING_TYPE_{name.upper()}" for name in ("mean", "cls", "last")},
        roles=frozenset({Role.EMBED}),
        help="how a text's vectors become one; the model's documentation says which it was trained for",
    ),
)

FLAGS: Mapping[str, Flag] = MappingProxyType({flag.name: flag for flag in _FLAGS})
