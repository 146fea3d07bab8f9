import os
from pathlib import Path

import msgspec
import pytest

from llmgw.testing.gguf import write_random_model
from llmgw.testing.safetensors_model import CONFIG, write_safetensors_model
from llmgw.weights.gguf_parts import parts
from llmgw.weights.sources import MOST_PROBLEMS, Shelf, files


def model(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_random_model(path, width=2, layers=1)
    return path


def scan(folder):
    return Shelf().survey(str(folder)).weights


def problems(folder):
    return Shelf().survey(str(folder)).problems


def test_models_are_found_below_a_folder_sorted_and_once(tmp_path):
    b, a = model(tmp_path / "b.gguf"), model(tmp_path / "deep" / "er" / "a.gguf")
    c = write_safetensors_model(tmp_path / "hf" / "c")
    (tmp_path / "notes.txt").write_text("no model")
    model(tmp_path / ".hidden" / "c.gguf")
    found = scan(tmp_path)
    assert [weights.path for weights in found] == [str(b), str(a), str(c)]
    assert all(weights.problem is None for weights in found)
    assert problems(tmp_path) == ()


def test_a_folder_that_is_not_there_has_none_and_says_so(tmp_path):
    assert scan(tmp_path / "none") == ()
    assert problems(tmp_path / "none") == (f"there is no folder {tmp_path}/none",)
    file = model(tmp_path / "m.gguf")
    assert problems(file) == (f"{file} is a file, not a folder",)


def test_a_folder_that_may_not_be_read_is_told_and_the_others_are_seen(tmp_path, monkeypatch):
    model(tmp_path / "open" / "m.gguf")
    closed = tmp_path / "closed"
    closed.mkdir()
    scandir = os.scandir

    def refuse(path):
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    survey = Shelf().survey(str(tmp_path))
    assert len(survey.weights) == 1
    assert survey.problems == (f"{closed} may not be read by the agent's user",)


def test_links_to_folders_are_followed_and_circles_end(tmp_path):
    path = model(tmp_path / "real" / "m.gguf")
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "link").symlink_to(path.parent)
    (path.parent / "back").symlink_to(shelf)
    assert [weights.path for weights in scan(shelf)] == [str(shelf / "link" / "m.gguf")]


def test_links_that_lead_in_a_circle_or_nowhere_are_told_apart(tmp_path):
    (tmp_path / "round").symlink_to(tmp_path / "round")
    (tmp_path / "a.gguf").symlink_to(tmp_path / "b.gguf")
    (tmp_path / "b.gguf").symlink_to(tmp_path / "a.gguf")
    (tmp_path / "c.gguf").symlink_to("/no/such/place/c.gguf")
    survey = Shelf().survey(str(tmp_path))
    assert survey.problems == (f"{tmp_path}/round is a link that leads in a circle",)
    assert [weights.problem for weights in survey.weights] == [
        "is a link that leads in a circle",
        "is a link that leads in a circle",
        "is a link to /no/such/place/c.gguf, where nothing is",
    ]


def test_of_many_problems_the_first_are_told_and_the_rest_counted(tmp_path):
    for number in range(MOST_PROBLEMS + 3):
        (tmp_path / f"r{number}").symlink_to(tmp_path / f"r{number}")
    told = problems(tmp_path)
    assert len(told) == MOST_PROBLEMS + 1
    assert told[-1] == "and 3 more like these"


def test_a_broken_file_is_listed_with_its_problem(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"nonsense")
    (weights,) = scan(tmp_path)
    assert weights.problem == "is not GGUF: it starts with b'nons'"


def test_an_unfinished_download_is_listed_as_what_it_is(tmp_path):
    half = tmp_path / "m.gguf.part"
    half.write_bytes(b"GGUF half")
    (weights,) = scan(tmp_path)
    assert (weights.path, weights.size_bytes) == (str(half), 9)
    assert weights.problem == "is an unfinished download of m.gguf"


def test_a_file_of_full_size_that_is_still_loaded_is_no_model_yet(tmp_path):
    shelf, path = Shelf(), model(tmp_path / "m.gguf")
    control = tmp_path / "m.gguf.aria2"
    control.write_bytes(b"")
    (weights,) = shelf.survey(str(tmp_path)).weights
    assert (weights.path, weights.problem) == (str(path), "is still being downloaded: m.gguf.aria2 lies beside it")
    control.unlink()
    assert shelf.survey(str(tmp_path)).weights[0].problem is None


def test_what_the_hubs_client_has_not_finished_is_told_of_the_folder(tmp_path):
    hidden = tmp_path / "repo" / ".cache" / "huggingface" / "download"
    hidden.mkdir(parents=True)
    (hidden / "x.0f.incomplete").write_bytes(b"half")
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "0f.incomplete").write_bytes(b"half")
    assert sorted(problems(tmp_path)) == [
        f"{blobs} holds an unfinished download",
        f"{tmp_path}/repo holds an unfinished download",
    ]


def test_a_split_model_is_its_first_part_with_the_size_of_all(tmp_path):
    first = model(tmp_path / "m-00001-of-00002.gguf")
    second = model(tmp_path / "m-00002-of-00002.gguf")
    (weights,) = scan(tmp_path)
    assert weights.path == str(first)
    assert weights.problem is None
    assert weights.size_bytes == first.stat().st_size + second.stat().st_size
    assert parts(str(first)) == files(weights) == (str(first), str(second))


def test_a_split_model_without_all_parts_says_which_is_missing(tmp_path):
    model(tmp_path / "m-00001-of-00003.gguf")
    model(tmp_path / "m-00003-of-00003.gguf")
    (weights,) = scan(tmp_path)
    assert weights.problem == "lacks 1 of its 3 parts, first m-00002-of-00003.gguf"


def test_a_split_model_without_its_first_part_is_told_of_by_the_next(tmp_path):
    second = model(tmp_path / "m-00002-of-00002.gguf")
    (weights,) = scan(tmp_path)
    assert weights.path == str(second)
    assert weights.problem == "lacks 1 of its 2 parts, first m-00001-of-00002.gguf"


def test_a_part_that_is_broken_breaks_the_model(tmp_path):
    model(tmp_path / "m-00001-of-00002.gguf")
    second = model(tmp_path / "m-00002-of-00002.gguf")
    whole = second.read_bytes()
    second.write_bytes(whole[: -len(whole) // 3])
    (weights,) = scan(tmp_path)
    assert weights.problem is not None
    assert weights.problem.startswith("m-00002-of-00002.gguf is cut off: ")
    second.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (weights,) = scan(tmp_path)
    assert weights.problem is not None
    assert weights.problem.startswith("m-00002-of-00002.gguf is a Git LFS pointer")


def test_a_part_that_comes_later_mends_the_model(tmp_path):
    shelf = Shelf()
    model(tmp_path / "m-00001-of-00002.gguf")
    assert shelf.survey(str(tmp_path)).weights[0].problem is not None
    model(tmp_path / "m-00002-of-00002.gguf")
    assert shelf.survey(str(tmp_path)).weights[0].problem is None


def test_a_file_is_read_again_only_when_it_changed(tmp_path):
    shelf, path = Shelf(), model(tmp_path / "m.gguf")
    (first,) = shelf.survey(str(tmp_path)).weights
    (again,) = shelf.survey(str(tmp_path)).weights
    assert again is first
    path.write_bytes(b"")
    assert shelf.survey(str(tmp_path)).weights[0].problem == "is empty"


def test_a_folder_is_read_again_when_one_of_its_files_changed(tmp_path):
    shelf, folder = Shelf(), write_safetensors_model(tmp_path / "m", parts=2)
    (first,) = shelf.survey(str(tmp_path)).weights
    assert shelf.survey(str(tmp_path)).weights[0] is first
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert shelf.survey(str(tmp_path)).weights[0].problem is not None


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
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    broken = shelf.look(str(path))
    assert broken.present
    assert broken.problem is not None
    assert "Git LFS" in broken.problem


def test_a_watched_folder_with_a_model_is_that_model(tmp_path):
    found = Shelf().look(str(write_safetensors_model(tmp_path / "m")))
    assert found.present
    assert found.weights is not None
    assert found.weights.architecture == "LlamaForCausalLM"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("adapter_model.safetensors", "it has safetensors files, but no config.json"),
        ("pytorch_model.bin", "it holds PyTorch files (.bin), no safetensors"),
        ("m.gguf", "it holds GGUF files; name one of them"),
        ("README.md", "it has no config.json with safetensors files"),
    ],
)
def test_a_watched_folder_without_a_model_says_what_it_holds(tmp_path, name, words):
    (tmp_path / name).write_bytes(b"x")
    found = Shelf().look(str(tmp_path))
    assert found.present
    assert found.weights is None
    assert found.problem == f"{tmp_path} is a folder without a model: {words}"


def test_a_watched_link_to_nothing_says_where_it_leads(tmp_path):
    (tmp_path / "m.gguf").symlink_to("/no/such/place")
    found = Shelf().look(str(tmp_path / "m.gguf"))
    assert not found.present
    assert found.problem == f"{tmp_path}/m.gguf is a link to /no/such/place, where nothing is"


def test_a_path_that_is_no_path_is_absent_with_a_reason():
    found = Shelf().look("/" + "x" * 5000)
    assert not found.present
    assert found.problem is not None
    assert os.strerror(36) in found.problem


def test_names_that_are_not_utf8_are_told_in_a_way_that_can_be_sent(tmp_path):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/m\xff.gguf")
    (tmp_path / "good.gguf").symlink_to(odd)
    write_random_model(Path(odd), width=2, layers=1)
    (tmp_path / "lost.gguf").symlink_to(odd + "x")
    survey = Shelf().survey(str(tmp_path))
    assert [Path(weights.path).name for weights in survey.weights] == ["good.gguf", "lost.gguf"]
    assert survey.problems == (f"{tmp_path}/m\\udcff.gguf has a name that is not UTF-8: rename it",)
    msgspec.json.encode(survey)


def test_texts_in_files_that_cannot_be_sent_are_replaced(tmp_path):
    folder = write_safetensors_model(tmp_path / "m")
    config = (folder / "config.json").read_text().replace("LlamaForCausalLM", "\\ud800ForCausalLM")
    (folder / "config.json").write_text(config)
    msgspec.json.encode(Shelf().survey(str(tmp_path)))


def test_a_file_that_nobody_foresaw_is_a_problem_and_no_end_of_the_look(tmp_path):
    model(tmp_path / "good.gguf")
    folder = write_safetensors_model(tmp_path / "m")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "\\u0000"}}')
    good, odd = scan(tmp_path)
    assert good.problem is None
    assert odd.problem is not None
    assert odd.problem.startswith("cannot be understood: ")


def test_numbers_that_cannot_be_are_unknown(tmp_path):
    config = {**CONFIG, "max_position_embeddings": 10**30, "num_hidden_layers": -3}
    write_safetensors_model(tmp_path, config=config)
    (weights,) = scan(tmp_path)
    assert (weights.context_length, weights.layers, weights.kv_bytes_per_token) == (None, None, None)
    assert weights.architecture == "LlamaForCausalLM"
    msgspec.json.encode(weights)
