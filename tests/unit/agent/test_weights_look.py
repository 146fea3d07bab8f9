import asyncio
import contextlib
import threading

import pytest

from llmgw.agent import weights_look
from llmgw.agent.digests import Digests
from llmgw.agent.weights_look import WeightsLook
from llmgw.testing.gguf import write_random_model


@pytest.fixture
def looks(monkeypatch):
    monkeypatch.setattr(weights_look, "FOLDER_S", 0.2)

    def make(*folders):
        digests = Digests(None, mib_per_s=0, made=lambda: None)
        return WeightsLook([str(folder) for folder in folders], digests, lambda: None)

    return make


def model(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_random_model(path, width=2, layers=1)


@contextlib.contextmanager
def hanging(look, number):
    """Let the look through one folder hang, and count how often it was begun."""
    release, scans = threading.Event(), []

    def survey(folder):
        scans.append(folder)
        release.wait(20)
        return type(look._folders[number].survey)()

    look._folders[number]._shelf.survey = survey
    try:
        yield scans
    finally:
        release.set()


async def test_weights_below_two_folders_are_there_once(tmp_path, looks):
    model(tmp_path / "deep" / "m.gguf")
    seen = await looks(tmp_path, tmp_path / "deep").look()
    assert len(seen.weights) == 1
    assert [folder.path for folder in seen.folders] == [str(tmp_path), str(tmp_path / "deep")]


async def test_a_folder_that_does_not_answer_keeps_what_was_seen_and_holds_nothing_up(tmp_path, looks):
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    model(fast / "m.gguf")
    model(slow / "m.gguf")
    look = looks(fast, slow)
    assert len((await look.look()).weights) == 2
    with hanging(look, 1) as scans:
        model(fast / "n.gguf")
        for _ in range(5):
            seen = await look.look()
            assert len(seen.weights) == 3
            assert seen.folders[0].problems == ()
            assert seen.folders[1].problems == (f"{slow} does not answer: what was seen last is shown",)
        assert len(scans) == 1, "a look that hangs is not started again"
    async with asyncio.timeout(20):
        while (await look.look()).folders[1].problems:  # noqa: ASYNC110 - a thread has no event to wait for
            await asyncio.sleep(0.01)
    assert len((await look.look()).weights) == 2


async def test_a_folder_that_is_not_there_is_told(tmp_path, looks):
    seen = await looks(tmp_path / "none").look()
    assert seen.weights == ()
    assert seen.folders[0].problems == (f"there is no folder {tmp_path}/none",)


async def test_a_watched_path_that_hangs_is_looked_at_once_and_holds_up_no_other(tmp_path, looks):
    model(tmp_path / "m.gguf")
    look = looks()
    release, asked = threading.Event(), []
    inspect = look._shelf.look

    def hang(path):
        asked.append(path)
        if path.endswith("silent.gguf"):
            release.wait(20)
        return inspect(path)

    look._shelf.look = hang
    paths = (str(tmp_path / "m.gguf"), str(tmp_path / "silent.gguf"))
    for _ in range(5):
        fine, silent = await look.watch(paths)
        assert fine.present
        assert (silent.present, silent.problem) == (False, f"{tmp_path}/silent.gguf does not answer")
    assert asked.count(str(tmp_path / "silent.gguf")) == 1
    release.set()
