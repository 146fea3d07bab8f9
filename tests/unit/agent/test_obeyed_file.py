import pytest

from llmgw.agent.obeyed import Obeyed
from llmgw.agent.obeyed_file import ObeyedFile


@pytest.fixture
def file(tmp_path):
    made = ObeyedFile(tmp_path)
    made.make()
    return made


def obeyed(epoch, generation=1):
    return Obeyed(epoch=epoch, holder=f"h{epoch}", generation=generation)


def test_the_newest_is_read_back(file, tmp_path):
    assert file.read() == Obeyed()
    for one in (obeyed(1), obeyed(2), obeyed(2, 7), obeyed(3, 7), obeyed(3, 8)):
        file.save(one)
        assert ObeyedFile(tmp_path).read() == one


def test_both_files_keep_their_size_so_that_no_room_is_needed(file, tmp_path):
    for epoch in range(1, 40):
        file.save(obeyed(epoch, 10**epoch))
    assert [path.stat().st_size for path in sorted(tmp_path.iterdir())] == [512, 512]


@pytest.mark.parametrize("torn", [b"", b"{", b'{"epoch": 9', b"\0" * 512])
def test_a_write_that_was_cut_short_costs_only_itself(file, tmp_path, torn):
    file.save(obeyed(1))
    file.save(obeyed(2))
    newest = next(path for path in tmp_path.iterdir() if b'"h2"' in path.read_bytes())
    newest.write_bytes(torn)
    assert file.read() == obeyed(1)
    file.save(obeyed(3))
    assert file.read() == obeyed(3)


def test_what_an_earlier_release_wrote_is_read(tmp_path):
    (tmp_path / "epoch.json").write_text('{"epoch": 5, "holder": "h5", "generation": 1}')
    file = ObeyedFile(tmp_path)
    file.make()
    assert file.read() == obeyed(5)
    assert (tmp_path / "epoch-2.json").stat().st_mode & 0o77 == 0
