import errno
import os

import pytest

from llmgw.config import disk
from llmgw.config.disk import FULL_BYTES, Room

MIB = 1024 * 1024


def room(free_bytes, *, total_bytes=1000 * MIB, free_files=1000):
    return Room(total_bytes=total_bytes, free_bytes=free_bytes, free_files=free_files)


@pytest.mark.parametrize(
    ("left", "full"),
    [
        (room(FULL_BYTES), False),
        (room(FULL_BYTES - 1), True),
        (room(0), True),
        (room(900 * MIB, free_files=0), True),
        (room(900 * MIB, free_files=None), False),
        (room(100 * 1024, total_bytes=MIB), False),
        (room(10 * 1024, total_bytes=MIB), True),
    ],
)
def test_full_is_less_than_a_start_needs_and_of_a_tiny_disk_less_than_its_sixteenth(left, full):
    assert left.is_full is full


def test_a_real_filesystem_tells_what_is_left(tmp_path):
    found = disk.read(tmp_path)
    assert 0 < found.free_bytes <= found.total_bytes
    assert found.free_files is None or found.free_files > 0


def test_what_cannot_be_looked_at_is_not_known_to_be_full(tmp_path):
    assert not disk.is_full(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        disk.read(tmp_path / "absent")


@pytest.mark.parametrize(("number", "wanted"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)])
def test_a_full_disk_and_a_quota_that_is_used_up_are_wants_of_room(number, wanted):
    assert disk.is_want_of_room(OSError(number, os.strerror(number))) is wanted
