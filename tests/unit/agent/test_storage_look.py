import threading

import msgspec
import pytest

from llmgw.agent import storage_look
from llmgw.agent.storage_look import StorageLook, _steady
from llmgw.hardware import mounts
from llmgw.hardware.mounts import Sizes, parse_mountinfo
from llmgw.schema.weights import Storage

BEFORE = Storage(mount="/m", source="/dev/a", fstype="ext4", total_bytes=10_100, free_bytes=1000)


@pytest.fixture
def table(monkeypatch):
    def lay(*lines):
        monkeypatch.setattr(mounts, "read_mounts", lambda: parse_mountinfo("\n".join(lines)))

    return lay


def look(*folders):
    return StorageLook([str(folder) for folder in folders], lambda: None)


async def test_two_folders_on_one_filesystem_are_one_storage(tmp_path, table):
    table(f"9 1 8:1 / {tmp_path} rw - ext4 /dev/sda rw")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (storage,) = await look(tmp_path / "a", tmp_path / "b").look(())
    assert storage.mount == str(tmp_path)
    assert storage.shared is False
    assert storage.free_bytes is not None
    assert storage.problem is None


async def test_one_filesystem_mounted_twice_is_one_storage(tmp_path, table):
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    table(f"9 1 8:1 / {first} rw - ext4 /dev/sda rw", f"10 1 8:1 /sub {second} rw - ext4 /dev/sda rw")
    (storage,) = await look(first, second).look(())
    assert storage.mount == str(first)


async def test_a_folder_behind_a_link_lies_where_the_link_leads(tmp_path, table):
    (tmp_path / "nas" / "models").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "nas" / "models")
    table(
        f"9 1 8:1 / {tmp_path} rw - ext4 /dev/sda rw",
        rf"10 9 0:42 / {tmp_path}/nas rw - nfs4 nas:/export rw",
    )
    (storage,) = await look(tmp_path / "link").look(())
    assert (storage.fstype, storage.shared) == ("nfs4", True)


async def test_a_filesystem_that_cannot_be_looked_at_is_unknown_not_full(tmp_path, table):
    table(f"9 1 8:1 / {tmp_path}/gone rw - ext4 /dev/sda rw")
    (storage,) = await look(tmp_path / "gone" / "models").look(())
    assert storage.free_bytes is None
    assert storage.total_bytes is None
    assert storage.problem == f"{tmp_path}/gone cannot be looked at: No such file or directory"


async def test_one_that_hangs_is_told_and_holds_up_no_other_and_no_thread_more(tmp_path, table, monkeypatch):
    monkeypatch.setattr(storage_look, "STATVFS_S", 0.1)
    table(f"9 1 8:1 / {tmp_path}/a rw - ext4 /dev/sda rw", f"10 1 0:42 / {tmp_path}/b rw - nfs4 nas:/x rw")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    release, asked = threading.Event(), []

    def sizes(point):
        asked.append(point)
        if point.endswith("/b"):
            release.wait(20)
        return Sizes(total_bytes=10, free_bytes=len(asked))

    monkeypatch.setattr(mounts, "read_sizes", sizes)
    looking = look(tmp_path / "a", tmp_path / "b")
    for _ in range(5):
        fine, silent = await looking.look(())
        assert (fine.problem, fine.total_bytes) == (None, 10)
        assert (silent.problem, silent.total_bytes) == (f"{tmp_path}/b does not answer", None)
    assert asked.count(f"{tmp_path}/b") == 1
    assert sum(thread.name == f"statvfs {tmp_path}/b" for thread in threading.enumerate()) == 1
    release.set()


async def test_a_real_path_that_hangs_is_taken_as_it_is_written(tmp_path, table, monkeypatch):
    monkeypatch.setattr(storage_look, "STATVFS_S", 0.1)
    table(f"9 1 0:42 / {tmp_path} rw - nfs4 nas:/x rw")
    release = threading.Event()
    monkeypatch.setattr(storage_look, "_real_path", lambda _: release.wait(20) or "")
    (storage,) = await look(tmp_path / "models").look(())
    assert storage.mount == str(tmp_path)
    release.set()


@pytest.mark.parametrize(("moved", "told"), [(900, 1000), (1100, 1000), (890, 890), (1200, 1200)])
def test_free_space_is_news_only_when_it_moves_by_a_hundredth(moved, told):
    assert _steady(BEFORE, msgspec.structs.replace(BEFORE, free_bytes=moved)).free_bytes == told


def test_space_that_became_unknown_is_told():
    silent = msgspec.structs.replace(BEFORE, free_bytes=None, problem="does not answer")
    assert _steady(BEFORE, silent) == silent
    assert _steady(None, BEFORE) == BEFORE
