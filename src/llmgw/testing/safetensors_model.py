"""Safetensors folders for tests, written in milliseconds: headers, configuration and zeros, no use to engines."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "hidden_size": 64,
    "max_position_embeddings": 4096,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "vocab_size": 512,
}


def write_safetensors_model(folder: Path, *, parts: int = 1, config: Mapping[str, Any] = CONFIG) -> Path:
    """Write a folder with a configuration, a tokenizer's with a chat template, and `parts` files; gives the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    if parts == 1:
        (folder / "model.safetensors").write_bytes(safetensors_file({"a": 64}))
        return folder
    names = {f"t{part}": f"model-{part:05d}-of-{parts:05d}.safetensors" for part in range(1, parts + 1)}
    for tensor, name in names.items():
        (folder / name).write_bytes(safetensors_file({tensor: 64}))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return folder


def safetensors_file(tensors: Mapping[str, int], *, dtype: str = "BF16") -> bytes:
    """Give a file's content: tensors of zeros, each with so many bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, size in tensors.items():
        header[name] = {"dtype": dtype, "shape": [size // 2], "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + b"\0" * end
