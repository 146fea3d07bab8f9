import errno
import os

import pytest

from llmgw.agent import folder as module
from llmgw.agent.folder import Folder


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A folder whose disk can be full, by what writing says and by what is left."""

    class Room:
        folder = Folder(tmp_path)
        error = None
        left = True

        def write(self, path, text):
            if self.error is not None:
                raise OSError(self.error, os.strerror(self.error))
            path.write_text(text)

    found = Room()
    monkeypatch.setattr(module, "replace_private", found.write)
    monkeypatch.setattr(module.disk, "is_full", lambda _: not found.left)
    return found


def test_what_finds_no_room_is_written_once_there_is(room):
    room.folder.keep("a.json", [1])
    room.error = errno.ENOSPC
    room.folder.keep("a.json", [2])
    room.folder.keep("b.json", [3])
    assert room.folder.read("a.json", list[int]) == [1]
    assert "data_dir" in room.folder.problem()
    room.error = None
    room.folder.retry()
    assert (room.folder.read("a.json", list[int]), room.folder.read("b.json", list[int])) == ([2], [3])
    assert room.folder.problem() is None


def test_what_was_forgotten_meanwhile_is_not_written(room):
    room.error = errno.ENOSPC
    room.folder.keep("a.json", [1])
    room.folder.forget("a.json")
    room.error = None
    room.folder.retry()
    assert room.folder.read("a.json", list[int]) is None


def test_what_must_be_written_at_once_raises(room):
    room.error = errno.ENOSPC
    with pytest.raises(OSError, match="No space left"):
        room.folder.write("a.json", [1])


def test_a_full_disk_is_a_problem_before_anything_failed_and_another_failure_is_named(room):
    room.left = False
    assert room.folder.problem().endswith("is full: no engine can be started until there is room")
    room.left, room.error = True, errno.EROFS
    room.folder.keep("a.json", [1])
    assert room.folder.problem().endswith("Read-only file system")
