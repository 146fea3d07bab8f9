import struct

import pytest

from llmgw.testing.gguf_file import Tensor, floats, ones, write_gguf


def test_header_counts_tensors_and_keys_and_data_is_aligned(tmp_path):
    path = tmp_path / "m.gguf"
    write_gguf(path, {"a": 1, "b": "x"}, [Tensor("t", (3,), floats([1, 2, 3])), Tensor("z", (2, 2))])
    raw = path.read_bytes()
    assert raw[:4] == b"GGUF"
    assert struct.unpack("<IQQ", raw[4:24]) == (3, 2, 2)
    start = raw.index(floats([1, 2, 3]))
    assert start % 32 == 0
    # Each tensor fills whole blocks of 32 bytes, the last one too.
    assert len(raw) == start + 32 + 32
    assert raw[start + 32 :] == bytes(32)


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (True, struct.pack("<I?", 7, True)),
        (7, struct.pack("<II", 4, 7)),
        (0.5, struct.pack("<If", 6, 0.5)),
        ("ab", struct.pack("<IQ2s", 8, 2, b"ab")),
        (("a",), struct.pack("<IIQQ1s", 9, 8, 1, 1, b"a")),
        ((1, 3), struct.pack("<IIQii", 9, 5, 2, 1, 3)),
        ((), struct.pack("<IIQ", 9, 8, 0)),
    ],
)
def test_each_kind_of_value_is_written_with_its_type(value, raw, tmp_path):
    path = tmp_path / "m.gguf"
    write_gguf(path, {"key": value}, [])
    assert struct.pack("<Q3s", 3, b"key") + raw in path.read_bytes()


def test_data_that_does_not_fill_its_shape_is_refused(tmp_path):
    with pytest.raises(ValueError, match="t has 8 bytes for a shape of 12"):
        write_gguf(tmp_path / "m.gguf", {}, [Tensor("t", (3,), ones(2))])
