import json
import re

import pytest

from llmgw.testing.safetensors_model import CONFIG, safetensors_file, write_safetensors_model
from llmgw.weights.safetensors import INDEX, files, inspect, is_model

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"


@pytest.fixture
def folder(tmp_path):
    return write_safetensors_model(tmp_path / "model", parts=3)


def part(folder, number):
    return folder / f"model-{number:05d}-of-00003.safetensors"


def test_a_whole_folder_is_described(folder):
    found = inspect(str(folder))
    assert found.problem is None
    assert (found.format, found.name, found.architecture) == ("safetensors", "model", "LlamaForCausalLM")
    assert (found.quantization, found.context_length, found.layers) == ("BF16", 4096, 2)
    assert found.vocabulary == 512
    assert found.kv_bytes_per_token == 2 * 2 * 2 * 2 * 16
    assert found.chat_template is True
    assert found.size_bytes == sum(part(folder, number).stat().st_size for number in (1, 2, 3))


def test_a_folder_with_one_file_needs_no_index(tmp_path):
    folder = write_safetensors_model(tmp_path)
    assert inspect(str(folder)).problem is None
    assert not (folder / INDEX).exists()


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda f: part(f, 2).unlink(), "lacks 1 of its 3 parts, first model-00002-of-00003.safetensors"),
        (
            lambda f: [part(f, 2).unlink(), (f / INDEX).unlink()],
            "lacks 1 of its 3 parts, first model-00002-of-00003.safetensors",
        ),
        (
            lambda f: part(f, 3).rename(part(f, 3).with_suffix(".safetensors.part")),
            "lacks 1 of its 3 parts, first model-00003-of-00003.safetensors: a download is unfinished",
        ),
        (
            lambda f: part(f, 2).write_bytes(part(f, 2).read_bytes()[:-10]),
            r"model-00002-of-00003.safetensors is cut off: \d+ bytes of \d+; copy it again",
        ),
        (
            lambda f: part(f, 2).write_bytes(part(f, 2).read_bytes() + b"more"),
            r"model-00002-of-00003.safetensors has \d+ bytes where its header tells of \d+; copy it again",
        ),
        (lambda f: part(f, 1).write_bytes(part(f, 1).read_bytes()[:40]), "is cut off within its header; copy it again"),
        (lambda f: part(f, 1).write_bytes(b"abc"), "is cut off within its header; copy it again"),
        (lambda f: part(f, 1).write_bytes(b""), "model-00001-of-00003.safetensors is empty"),
        (lambda f: part(f, 1).write_bytes(b"PK\3\4 not such a file"), "is not safetensors: it starts with b'PK"),
        (
            lambda f: part(f, 1).write_bytes((2).to_bytes(8, "little") + b"{x" + b"0" * 30),
            "model-00001-of-00003.safetensors has a damaged header",
        ),
        (lambda f: part(f, 1).write_text(LFS), "model-00001-of-00003.safetensors is a Git LFS pointer"),
        (lambda f: (f / INDEX).write_text(LFS), "model.safetensors.index.json is a Git LFS pointer"),
        (lambda f: (f / INDEX).write_text("{"), "model.safetensors.index.json is not what it should be"),
        (lambda f: (f / "config.json").unlink(), "lacks config.json"),
        (lambda f: (f / "config.json").write_text("[]"), "config.json is not what it should be"),
        (lambda f: (f / "config.json").write_text("{}"), "its config.json names no architecture"),
        (
            lambda f: [part(f, 1).unlink(), part(f, 1).symlink_to(part(f, 1))],
            "model-00001-of-00003.safetensors is a link that leads in a circle",
        ),
        (lambda f: [part(f, 1).unlink(), part(f, 1).symlink_to("/no/such/place")], "lacks 1 of its 3 parts"),
    ],
)
def test_what_keeps_a_folder_from_being_served_is_said_in_words(folder, spoil, problem):
    spoil(folder)
    found = inspect(str(folder))
    assert found.problem is not None

    assert re.search(problem, found.problem), found.problem


def test_a_download_by_the_hubs_client_that_is_not_done_is_told(tmp_path):
    cache = tmp_path / "models--org--repo"
    folder = write_safetensors_model(cache / "snapshots" / "abc", parts=2)
    (folder / "model-00002-of-00002.safetensors").unlink()
    (cache / "blobs").mkdir()
    (cache / "blobs" / "0f.incomplete").write_bytes(b"half")
    found = inspect(str(folder))
    assert found.name == "org/repo"
    assert found.problem is not None
    assert found.problem.endswith("a download is unfinished")


@pytest.mark.parametrize(
    ("config", "quantization"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq 4-bit"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "awq 4-bit"),
        ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
        (
            {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}},
            "compressed-tensors pack-quantized",
        ),
        ({"quantization_config": {"config_groups": {}}}, "compressed-tensors"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "bitsandbytes 4-bit"),
        ({"dtype": None, "torch_dtype": "float16"}, "F16"),
        ({"dtype": None}, "BF16"),
    ],
)
def test_quantization_comes_from_the_configuration_else_from_the_tensors(tmp_path, config, quantization):
    folder = write_safetensors_model(tmp_path, config={**CONFIG, **config})
    assert inspect(str(folder)).quantization == quantization


def test_quantization_files_of_older_tools_count(tmp_path):
    folder = write_safetensors_model(tmp_path)
    (folder / "quantize_config.json").write_text('{"bits": 4}')
    assert inspect(str(folder)).quantization == "gptq"
    (folder / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "NVFP4"}}')
    assert inspect(str(folder)).quantization == "modelopt NVFP4"


def test_a_model_of_several_parts_tells_of_its_language_model(tmp_path):
    config = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": CONFIG}
    found = inspect(str(write_safetensors_model(tmp_path, config=config)))
    assert (found.architecture, found.context_length) == ("Gemma3ForConditionalGeneration", 4096)
    assert (found.vocabulary, found.quantization) == (512, "BF16")


@pytest.mark.parametrize(
    ("more", "is_known"),
    [
        ({"kv_lora_rank": 512}, False),
        ({"layer_types": ["linear_attention", "full_attention"]}, False),
        ({"layer_types": ["sliding_attention", "full_attention"]}, True),
        ({"num_hidden_layers": None}, False),
        ({"head_dim": 128}, True),
    ],
)
def test_the_size_of_a_cache_is_known_only_where_it_is_plain_attention(tmp_path, more, is_known):
    found = inspect(str(write_safetensors_model(tmp_path, config={**CONFIG, **more})))
    assert (found.kv_bytes_per_token is not None) == is_known
    if more.get("head_dim"):
        assert found.kv_bytes_per_token == 2 * 2 * 2 * 2 * 128


def test_an_encoder_has_no_output_head(tmp_path):
    config = {**CONFIG, "architectures": ["BertModel"]}
    assert inspect(str(write_safetensors_model(tmp_path, config=config))).vocabulary is None


@pytest.mark.parametrize(
    ("files", "has_one"),
    [
        ({"tokenizer_config.json": "{}"}, False),
        ({"tokenizer_config.json": "{}", "chat_template.jinja": "x"}, True),
        ({"tokenizer_config.json": '{"chat_template": [{"name": "default", "template": "x"}]}'}, True),
        ({"tokenizer_config.json": "{"}, None),
        ({"tekken.json": "{}"}, True),
        ({}, None),
    ],
)
def test_a_chat_template_is_found_wherever_it_is_written(tmp_path, files, has_one):
    folder = write_safetensors_model(tmp_path)
    (folder / "tokenizer_config.json").unlink()
    for name, text in files.items():
        (folder / name).write_text(text)
    assert inspect(str(folder)).chat_template is has_one


def test_other_tensors_in_the_folder_are_not_its_parts(tmp_path):
    folder = write_safetensors_model(tmp_path)
    alone = inspect(str(folder)).size_bytes
    (folder / "consolidated.safetensors").write_bytes(safetensors_file({"b": 1024}))
    assert inspect(str(folder)).size_bytes == alone


def test_a_model_is_a_configuration_with_tensors_or_an_index():
    assert is_model(["config.json", "model.safetensors"])
    assert is_model([INDEX])
    assert not is_model(["config.json"])
    assert not is_model(["adapter_config.json", "adapter_model.safetensors"])


def test_the_files_of_a_model_are_its_parts_and_what_changes_its_answers(folder):
    (folder / "README.md").write_text("words")
    names = [path.rpartition("/")[2] for path in files(str(folder))]
    assert names == [*(part(folder, number).name for number in (1, 2, 3)), "config.json", "tokenizer_config.json"]
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
    assert "gone.safetensors" not in "".join(files(str(folder)))
