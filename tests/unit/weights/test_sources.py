import os

from llmgw.testing.gguf import write_random_model
from llmgw.weights.sources import Shelf, parts, scan


def model(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_random_model(path, width=2, layers=1)
    return path


def test_models_are_found_below_the_folders_sorted_and_once(tmp_path):
    b, a = model(tmp_path / "b.gguf"), model(tmp_path / "deep" / "er" / "a.gguf")
    (tmp_path / "notes.txt").write_text("no model")
    model(tmp_path / ".hidden" / "c.gguf")
    found = scan([str(tmp_path), str(tmp_path / "deep")])
    assert [weights.path for weights in found] == [str(b), str(a)]
    assert all(weights.problem is None for weights in found)


def test_a_folder_that_is_not_there_has_none(tmp_path):
    assert scan([str(tmp_path / "none")]) == ()


def test_links_to_folders_are_followed_and_circles_end(tmp_path):
    path = model(tmp_path / "real" / "m.gguf")
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "link").symlink_to(path.parent)
    (path.parent / "back").symlink_to(shelf)
    assert [weights.path for weights in scan([str(shelf)])] == [str(shelf / "link" / "m.gguf")]


def test_a_broken_file_is_listed_with_its_problem(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"nonsense")
    (weights,) = scan([str(tmp_path)])
    assert weights.problem == "is not GGUF: it starts with b'nons'"


def test_a_split_model_is_its_first_part_with_the_size_of_all(tmp_path):
    first = model(tmp_path / "m-00001-of-00002.gguf")
    second = model(tmp_path / "m-00002-of-00002.gguf")
    (weights,) = scan([str(tmp_path)])
    assert weights.path == str(first)
    assert weights.size_bytes == first.stat().st_size + second.stat().st_size
    assert parts(str(first)) == (str(first), str(second))


def test_a_split_model_without_all_parts_says_which_is_missing(tmp_path):
    model(tmp_path / "m-00001-of-00003.gguf")
    model(tmp_path / "m-00003-of-00003.gguf")
    (weights,) = scan([str(tmp_path)])
    assert weights.problem == "lacks 1 of its parts, first m-00002-of-00003.gguf"


def test_a_part_that_comes_later_mends_the_model(tmp_path):
    shelf = Shelf()
    model(tmp_path / "m-00001-of-00002.gguf")
    assert shelf.scan([str(tmp_path)])[0].problem is not None
    model(tmp_path / "m-00002-of-00002.gguf")
    assert shelf.scan([str(tmp_path)])[0].problem is None


def test_a_file_is_read_again_only_when_it_changed(tmp_path):
    shelf, path = Shelf(), model(tmp_path / "m.gguf")
    (first,) = shelf.scan([str(tmp_path)])
    (again,) = shelf.scan([str(tmp_path)])
    assert again is first
    path.write_bytes(b"")
    assert shelf.scan([str(tmp_path)])[0].problem == "is empty"


def test_a_watched_path_says_what_is_there(tmp_path):
    path = model(tmp_path / "m.gguf")
    shelf = Shelf()
    good = shelf.look(str(path))
    assert good.present
    assert good.problem is None
    assert good.weights is not None
    absent = shelf.look(str(tmp_path / "none.gguf"))
    assert not absent.present
    assert absent.problem == f"there is nothing at {tmp_path}/none.gguf on this node"
    folder = shelf.look(str(tmp_path))
    assert folder.present
    assert folder.weights is None
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    broken = shelf.look(str(path))
    assert broken.present
    assert broken.problem is not None
    assert "Git LFS" in broken.problem


def test_a_path_that_is_no_path_is_absent_with_a_reason():
    found = Shelf().look("/" + "x" * 5000)
    assert not found.present
    assert found.problem is not None
    assert os.strerror(36) in found.problem or "nothing at" in found.problem
