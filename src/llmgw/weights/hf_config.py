"""A model folder's `config.json`: architecture, context, quantization, and what its cache needs.

Its keys are those of the transformers library; models of several parts keep the language model's in `text_config`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmgw.schema.value import Value
from llmgw.weights.files import ModelFileError, read_json

_CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx", "max_seq_len")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
_WIDTH = ("hidden_size", "n_embd", "d_model")
_HEADED = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""Ends of the names of architectures with an output head over the vocabulary."""
_BESIDE = {
    "quantize_config.json": "gptq",
    "quant_config.json": "awq",
}
"""Files of older tools, which wrote nothing into config.json."""
_MODELOPT = "hf_quant_config.json"
_DTYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "half": "F16", "float": "F32"}
_OTHER_CACHES = ("kv_lora_rank", "layers_block_type", "linear_num_value_heads", "ssm_cfg", "state_size")
"""Keys of models whose cache is not keys and values of every layer over the whole context."""
_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
"""Kinds of layers that keep keys and values of the whole context at most."""

Json = Mapping[str, Any]


class HfConfig(Value, frozen=True, kw_only=True):
    """What a configuration says; `None` where it does not."""

    architecture: str | None
    quantization: str | None
    context_length: int | None
    layers: int | None
    kv_bytes_per_token: int | None
    vocabulary: int | None


def read(folder: Path) -> HfConfig:
    """Read a folder's configuration. Raises `ModelFileError` with the reason in words."""
    whole = read_json(folder / "config.json", dict[str, Any])
    return parse(whole, beside=_beside(folder))


def parse(whole: Json, *, beside: str | None = None) -> HfConfig:
    """Say what a configuration means. `beside` is the quantization that other files tell of."""
    nested = whole.get("text_config") or whole.get("llm_config")
    text = nested if isinstance(nested, dict) else whole
    architecture = _architecture(whole)
    return HfConfig(
        architecture=architecture,
        quantization=_quantization(whole, text) or beside or _dtype(whole, text),
        context_length=_number(text, _CONTEXT),
        layers=_number(text, _LAYERS),
        kv_bytes_per_token=_kv_bytes(text),
        vocabulary=_number(text, ("vocab_size",)) if (architecture or "").endswith(_HEADED) else None,
    )


def _architecture(whole: Json) -> str | None:
    listed = whole.get("architectures")
    if isinstance(listed, list) and listed and isinstance(listed[0], str):
        return listed[0]
    kind = whole.get("model_type")
    return kind if isinstance(kind, str) else None


def _quantization(whole: Json, text: Json) -> str | None:
    found = whole.get("quantization_config") or text.get("quantization_config") or whole.get("compression_config")
    if not isinstance(found, dict):
        return None
    method = found.get("quant_method")
    if not isinstance(method, str):
        return "compressed-tensors" if "config_groups" in found else None
    bits = found.get("bits", found.get("w_bit"))
    if method == "bitsandbytes":
        bits = 4 if found.get("load_in_4bit") or found.get("_load_in_4bit") else 8
    detail = found.get("quant_algo") or found.get("format") if method in ("modelopt", "compressed-tensors") else None
    if isinstance(bits, int):
        return f"{method} {bits}-bit"
    return f"{method} {detail}" if isinstance(detail, str) else method


def _beside(folder: Path) -> str | None:
    try:
        modelopt = read_json(folder / _MODELOPT, dict[str, Any]).get("quantization")
        algorithm = modelopt.get("quant_algo") if isinstance(modelopt, dict) else None
        if isinstance(algorithm, str):
            return f"modelopt {algorithm}"
    except ModelFileError:
        pass  # hardly any folder has one
    return next((method for name, method in _BESIDE.items() if (folder / name).exists()), None)


def _dtype(whole: Json, text: Json) -> str | None:
    names = (config.get(key) for config in (text, whole) for key in ("dtype", "torch_dtype"))
    return next((_DTYPES[name] for name in names if isinstance(name, str) and name in _DTYPES), None)


def _number(config: Json, keys: tuple[str, ...]) -> int | None:
    values = (config.get(key) for key in keys)
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def _kv_bytes(config: Json) -> int | None:
    """Bytes of f16 keys and values of one token over all layers; `None` for caches that are not plain attention."""
    kinds = config.get("layer_types") or []
    is_plain = isinstance(kinds, list) and all(kind in _ATTENTION for kind in kinds if isinstance(kind, str))
    if not is_plain or any(config.get(key) for key in _OTHER_CACHES):
        return None
    layers, heads = _number(config, _LAYERS), _number(config, _HEADS)
    kv_heads = _number(config, ("num_key_value_heads", "num_kv_heads")) or heads
    width = _number(config, ("head_dim",))
    if width is None and heads:
        hidden = _number(config, _WIDTH)
        width = None if hidden is None else hidden // heads
    if not layers or not kv_heads or not width:
        return None
    return 2 * 2 * layers * kv_heads * width
