from llmgw.testing.gguf import write_counting_model, write_random_model
from llmgw.weights.gguf import inspect


def test_the_counting_model_is_sound_weights_with_a_chat_template(tmp_path):
    path = tmp_path / "m.gguf"
    write_counting_model(path, context=8192, zero_layers=3)
    weights = inspect(path)
    assert weights.problem is None
    assert (weights.architecture, weights.context_length, weights.layers) == ("llama", 8192, 3)
    assert weights.chat_template
    assert weights.vocabulary == 256 + 3 + 500
    # One head of 64: keys and values of three layers, two bytes each.
    assert weights.kv_bytes_per_token == 64 * 2 * 3 * 2


def test_the_brake_takes_no_disk(tmp_path):
    path = tmp_path / "slow.gguf"
    write_counting_model(path, zero_layers=24, ff_width=8192)
    assert path.stat().st_size > 150e6
    assert path.stat().st_blocks * 512 < 5e6


def test_the_random_model_is_sound_weights_and_the_same_for_the_same_seed(tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        write_random_model(path, width=8, layers=2, seed=seed)
    first, same, other = (path.read_bytes() for path in paths)
    assert first == same != other
    assert inspect(paths[0]).problem is None
