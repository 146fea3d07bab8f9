import struct

import pytest

from llmgw.schema.guard.judge import JudgeFamily
from llmgw.testing.gguf import write_counting_model, write_random_model
from llmgw.testing.judge_model import write_judge_model
from llmgw.weights import gguf


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(key, kind, data):
    return text(key) + struct.pack("<I", kind) + data


def u32(key, value):
    return entry(key, 4, struct.pack("<I", value))


def string(key, value):
    return entry(key, 8, text(value))


def array(key, kind, values, layout):
    body = b"".join(struct.pack("<" + layout, value) for value in values)
    return entry(key, 9, struct.pack("<IQ", kind, len(values)) + body)


def file(entries, tensors=(), *, version=3, data=b""):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries)
    for name, shape, kind, offset in tensors:
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", kind, offset)
    return head + b"\0" * (-len(head) % 32) + data


LLAMA = [
    string("general.architecture", "llama"),
    u32("llama.block_count", 2),
    u32("llama.embedding_length", 64),
    u32("llama.attention.head_count", 4),
    u32("llama.context_length", 2048),
]
ONE_TENSOR = [("t", (32,), 0, 0)]


@pytest.fixture
def inspect(tmp_path):
    def write_and_inspect(content):
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        return gguf.inspect(str(path))

    return write_and_inspect


def test_a_model_made_by_hand_is_described(tmp_path):
    path = tmp_path / "count.gguf"
    write_counting_model(path)
    weights = gguf.inspect(str(path))
    assert weights.problem is None
    assert weights.architecture == "llama"
    assert weights.quantization == "F32"
    assert weights.chat_template is True
    assert weights.size_bytes == path.stat().st_size
    assert gguf.read_header(path).data_end <= path.stat().st_size


def test_a_judge_is_recognised_whatever_its_file_is_called(tmp_path):
    write_judge_model(tmp_path / "x.gguf", name="x")
    write_counting_model(tmp_path / "y.gguf")
    assert gguf.inspect(str(tmp_path / "x.gguf")).judge is JudgeFamily.LLAMA_GUARD_3_1B
    assert gguf.inspect(str(tmp_path / "y.gguf")).judge is None


def test_a_model_that_lost_its_end_is_cut_off(tmp_path):
    path = tmp_path / "cut.gguf"
    write_random_model(path, width=32, layers=1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])
    problem = gguf.inspect(str(path)).problem
    assert problem is not None
    assert problem.startswith("is cut off: ")


def test_a_header_cut_at_any_byte_is_told_and_never_raises(inspect):
    content = file(LLAMA, ONE_TENSOR, data=b"\0" * 128)
    assert inspect(content).problem is None
    for length in range(len(content)):
        assert inspect(content[:length]).problem is not None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid",
            "is a Git LFS pointer, not the file itself; fetch it with git lfs pull",
        ),
        (b"PK\x03\x04" + b"\0" * 100, r"is not GGUF: it starts with b'PK\x03\x04'"),
        (b"GGUF" + struct.pack("<I", 1) + b"\0" * 64, "is GGUF version 1; versions 2 and 3 can be served"),
        (b"GGUF" + struct.pack(">I", 3) + b"\0" * 64, "is big-endian GGUF, which engines on this machine cannot read"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), "has a damaged header (impossible number of entries)"),
        (file([entry("x", 77, b"")]), "has a damaged header (value of type 77)"),
        (file([u32("general.alignment", 0)]), "has a damaged header (alignment)"),
        (file([string("general.architecture", "llama")]), "holds no tensors (a vocabulary only)"),
        (file([u32("a", 1)], ONE_TENSOR, data=b"\0" * 128), "names no architecture (general.architecture)"),
        (
            file([string("general.type", "adapter"), *LLAMA], ONE_TENSOR, data=b"\0" * 128),
            "is a GGUF file of type adapter, not a model",
        ),
    ],
)
def test_what_is_wrong_is_told_in_words(inspect, content, problem):
    assert inspect(content).problem == problem


def test_a_missing_file_and_a_folder_are_told_in_words(tmp_path):
    assert gguf.inspect(str(tmp_path / "none.gguf")).problem == "cannot be read: No such file or directory"
    assert gguf.inspect(str(tmp_path)).problem == "cannot be read: Is a directory"


def test_the_cache_of_a_token_counts_key_and_value_heads_of_all_layers(inspect):
    content = file([*LLAMA, u32("llama.attention.head_count_kv", 2)], ONE_TENSOR, data=b"\0" * 128)
    assert inspect(content).kv_bytes_per_token == 2 * 2 * (16 + 16) * 2


def test_heads_may_differ_by_layer_and_have_widths_of_their_own(inspect):
    entries = [
        *LLAMA,
        array("llama.attention.head_count_kv", 4, (1, 3), "I"),
        u32("llama.attention.key_length", 128),
        u32("llama.attention.value_length", 64),
    ]
    assert inspect(file(entries, ONE_TENSOR, data=b"\0" * 128)).kv_bytes_per_token == (1 + 3) * (128 + 64) * 2


def test_a_cache_that_is_not_plain_attention_is_unknown(inspect):
    latent = file([*LLAMA, u32("llama.attention.kv_lora_rank", 512)], ONE_TENSOR, data=b"\0" * 128)
    assert inspect(latent).kv_bytes_per_token is None
    bare = file([string("general.architecture", "mamba")], ONE_TENSOR, data=b"\0" * 128)
    assert inspect(bare).kv_bytes_per_token is None


def test_the_makers_name_of_the_quantization_wins_over_the_tensors(inspect):
    named = file([*LLAMA, u32("general.file_type", 15)], ONE_TENSOR, data=b"\0" * 128)
    assert inspect(named).quantization == "Q4_K_M"
    mixed = file(LLAMA, [("a", (256,), 12, 0), ("b", (32,), 0, 160)], data=b"\0" * 512)
    assert inspect(mixed).quantization == "Q4_K"


def test_long_arrays_are_skipped_and_short_numbers_kept(tmp_path):
    path = tmp_path / "arrays.gguf"
    entries = [
        *LLAMA,
        array("scores", 6, [0.5] * 5000, "f"),
        entry("tokens", 9, struct.pack("<IQ", 8, 2) + text("a") + text("bc")),
        array("layers", 5, (-1, 2), "i"),
        string("after", "still in step"),
    ]
    path.write_bytes(file(entries, ONE_TENSOR, data=b"\0" * 128))
    metadata = gguf.read_header(path).metadata
    assert "scores" not in metadata
    assert "tokens" not in metadata
    assert metadata["layers"] == (-1, 2)
    assert metadata["after"] == "still in step"


def test_a_tensor_of_a_newer_type_does_not_make_the_file_cut_off(inspect):
    assert inspect(file(LLAMA, [("t", (1 << 20,), 250, 0)], data=b"\0" * 32)).problem is None
