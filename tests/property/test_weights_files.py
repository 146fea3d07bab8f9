"""Whatever bytes lie in a folder of weights, a look says something about them, and what it says can be sent."""

import tempfile
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from llmgw.testing.gguf import write_random_model
from llmgw.testing.safetensors_model import write_safetensors_model
from llmgw.weights.sources import Shelf


def look(folder: Path) -> None:
    survey = Shelf().survey(str(folder))
    assert len(survey.weights) == 1
    assert not (survey.weights[0].problem or "").startswith("cannot be understood")
    msgspec.json.encode(survey)


def damaged(content: bytes, at: int, bits: bytes, keep: int) -> bytes:
    """Overwrite some bytes and cut the rest off."""
    at %= len(content)
    return (content[:at] + bits + content[at + len(bits) :])[: 1 + keep % len(content)]


@given(at=st.integers(0, 4000), bits=st.binary(max_size=16), keep=st.integers(0, 10**6))
def test_a_damaged_gguf_file_is_described(at: int, bits: bytes, keep: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.gguf")
        write_random_model(path, width=2, layers=1)
        path.write_bytes(damaged(path.read_bytes(), at, bits, keep))
        look(Path(folder))


@given(
    name=st.sampled_from(["model-00001-of-00002.safetensors", "model.safetensors.index.json", "config.json"]),
    at=st.integers(0, 400),
    bits=st.binary(max_size=16),
    keep=st.integers(0, 10**6),
)
def test_a_damaged_safetensors_folder_is_described(name: str, at: int, bits: bytes, keep: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_safetensors_model(Path(folder), parts=2) / name
        path.write_bytes(damaged(path.read_bytes(), at, bits, keep))
        look(Path(folder))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    config=st.dictionaries(
        st.sampled_from(
            [
                "architectures",
                "model_type",
                "text_config",
                "quantization_config",
                "layer_types",
                "num_hidden_layers",
                "num_attention_heads",
                "num_key_value_heads",
                "head_dim",
                "hidden_size",
                "vocab_size",
                "dtype",
            ]
        ),
        JSON,
    )
)
def test_any_configuration_is_read(config: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_safetensors_model(Path(folder), config=config)
        look(Path(folder))
