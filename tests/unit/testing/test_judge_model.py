import pytest

from llmgw.testing.judge_model import CATEGORIES, WORDS, Sickness, write_judge_model
from llmgw.weights.gguf import inspect, read_header


@pytest.mark.parametrize("sickness", [None, *Sickness])
def test_a_judge_is_a_sound_file_below_a_megabyte(tmp_path, sickness):
    write_judge_model(tmp_path / "j.gguf", sickness=sickness)
    weights = inspect(str(tmp_path / "j.gguf"))
    assert weights.size_bytes < 1_000_000
    assert weights.problem is None
    assert weights.chat_template


def test_sick_judges_differ_from_the_healthy_one_in_their_last_matrix_only(tmp_path):
    healthy, inverted = tmp_path / "a.gguf", tmp_path / "b.gguf"
    write_judge_model(healthy)
    write_judge_model(inverted, sickness=Sickness.INVERTED)
    output = next(tensor for tensor in read_header(healthy).tensors if tensor.name == "output.weight")
    at = read_header(healthy).data_offset + output.offset
    assert healthy.read_bytes()[:at] == inverted.read_bytes()[:at]
    assert healthy.read_bytes() != inverted.read_bytes()


def test_a_slow_judge_takes_no_more_disk(tmp_path):
    write_judge_model(tmp_path / "slow.gguf", zero_layers=4, ff_width=8192)
    status = (tmp_path / "slow.gguf").stat()
    assert status.st_size > 40_000_000
    assert status.st_blocks * 512 < 15_000_000


def test_every_category_has_words():
    assert sorted(WORDS) == list(range(1, CATEGORIES + 1))
    assert all(0.5 < strength <= 1 for words in WORDS.values() for strength in words.values())
