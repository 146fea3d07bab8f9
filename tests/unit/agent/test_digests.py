import asyncio
import contextlib
import hashlib

import msgspec

from llmgw.agent import digests
from llmgw.agent.digests import Digests
from llmgw.agent.local_state import LocalState
from llmgw.testing.gguf import write_random_model
from llmgw.testing.safetensors_model import write_safetensors_model
from llmgw.weights.digest import digest_of
from llmgw.weights.sources import Shelf

FAST = 1_000_000


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def seen(folder):
    return Shelf().survey(str(folder)).weights


@contextlib.asynccontextmanager
async def making(book, weights, *, mib_per_s=FAST):
    made = asyncio.Event()
    making = Digests(book, mib_per_s=mib_per_s, made=made.set)
    task = asyncio.create_task(making.run())
    making.want(weights)
    try:
        yield making, made
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until_known(making, weights):
    async with asyncio.timeout(20):
        while making.of(weights) is None:  # noqa: ASYNC110 - a thread makes it
            await asyncio.sleep(0.01)
    return making.of(weights)


def state(tmp_path):
    found = LocalState(str(tmp_path / "data"))
    found.root.mkdir(exist_ok=True)
    return found


async def test_the_digest_of_a_file_is_made_and_kept_over_restarts(tmp_path, monkeypatch):
    path = tmp_path / "models" / "m.gguf"
    path.parent.mkdir()
    write_random_model(path, width=2, layers=1)
    (weights,) = seen(path.parent)
    book = state(tmp_path)
    async with making(book, [weights]) as (first, made):
        assert await until_known(first, weights) == sha256(path)
        async with asyncio.timeout(20):
            await made.wait()

    def refuse(*_args, **_more):
        raise AssertionError("it is known: reading it again takes hours")

    monkeypatch.setattr(digests, "digest_of", refuse)
    async with making(book, [weights]) as (second, _):
        assert second.of(weights) == sha256(path)


async def test_another_content_has_another_digest_and_none_meanwhile(tmp_path):
    path = tmp_path / "models" / "m.gguf"
    path.parent.mkdir()
    write_random_model(path, width=2, layers=1)
    (weights,) = seen(path.parent)
    async with making(state(tmp_path), [weights]) as (first, _):
        before = await until_known(first, weights)
        write_random_model(path, width=4, layers=1)
        (changed,) = seen(path.parent)
        assert first.of(changed) is None
        first.want([changed])
        after = await until_known(first, changed)
        assert after == sha256(path) != before


async def test_a_folder_has_one_digest_that_does_not_depend_on_where_it_lies(tmp_path):
    for place in ("here", "there"):
        write_safetensors_model(tmp_path / "models" / place, parts=2)
    here, there = seen(tmp_path / "models")
    async with making(state(tmp_path), [here, there]) as (one, _):
        assert await until_known(one, here) == await until_known(one, there)


async def test_broken_weights_and_files_that_go_away_have_none_and_hold_up_no_other(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    for name in ("a", "b"):
        write_random_model(models / f"{name}.gguf", width=2, layers=1)
    (models / "broken.gguf").write_bytes(b"nonsense")
    a, b, broken = seen(models)
    (models / "a.gguf").unlink()
    async with making(state(tmp_path), [a, b, broken]) as (one, _):
        assert await until_known(one, b) == sha256(models / "b.gguf")
        assert one.of(a) is None
        assert one.of(broken) is None


async def test_no_digests_are_made_where_none_are_asked_for(tmp_path):
    write_random_model(tmp_path / "m.gguf", width=2, layers=1)
    (weights,) = seen(tmp_path)
    async with making(None, [weights], mib_per_s=0) as (none, made):
        await asyncio.sleep(0.1)
        assert none.of(weights) is None
        assert not made.is_set()


async def test_one_file_is_read_at_a_time(tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        write_random_model(tmp_path / f"{name}.gguf", width=2, layers=1)
    found = seen(tmp_path)
    reading, most = [], []

    def slowly(path, **more):
        reading.append(path)
        most.append(len(reading))
        try:
            return digest_of(path, **more)
        finally:
            reading.remove(path)

    monkeypatch.setattr(digests, "digest_of", slowly)
    async with making(None, found) as (one, _):
        for weights in found:
            await until_known(one, weights)
    assert most == [1, 1, 1]


def test_what_is_kept_is_bounded_and_the_oldest_goes_first(monkeypatch):
    monkeypatch.setattr(digests, "MOST_KEPT", 2)
    assert list(digests._newest({"a": 1, "b": 2, "c": 3})) == ["b", "c"]


def test_a_book_of_another_version_is_an_empty_one(tmp_path):
    book = state(tmp_path)
    (book.root / "digests.json").write_bytes(msgspec.json.encode({"a": 1}))
    assert book.digests() == {}


async def test_a_disk_that_is_full_costs_only_the_memory_of_them(tmp_path, monkeypatch):
    write_random_model(tmp_path / "m.gguf", width=2, layers=1)
    (weights,) = seen(tmp_path)
    book = state(tmp_path)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(book, "save_digests", full)
    async with making(book, [weights]) as (one, made):
        async with asyncio.timeout(20):
            await made.wait()
        assert one.of(weights) == sha256(tmp_path / "m.gguf")
