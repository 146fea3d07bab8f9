import pytest

from llmgw.config import disk
from llmgw.config.disk import Room
from llmgw.schema.summary import AlarmKind
from llmgw.server.disk_watch import DiskWatch


@pytest.fixture
def watch(tmp_path):
    return DiskWatch(name="control-1", folder=tmp_path)


def room(free_bytes):
    return Room(total_bytes=10**9, free_bytes=free_bytes, free_files=None)


async def test_a_full_disk_is_an_alarm_as_long_as_it_is(watch, tmp_path, monkeypatch):
    left = [room(10**8), room(0), room(10**8)]
    monkeypatch.setattr(disk, "read", lambda _: left.pop(0))
    assert (watch.room, watch.alarms()) == (None, ())
    await watch.look()
    assert watch.alarms() == ()
    await watch.look()
    (alarm,) = watch.alarms()
    assert (alarm.kind, alarm.node) == (AlarmKind.DISK_FULL, None)
    assert alarm.text.startswith(f"the disk of control-1's data_dir {tmp_path} is full")
    await watch.look()
    assert watch.alarms() == ()
    assert watch.room.free_bytes == 10**8


async def test_a_disk_that_cannot_be_looked_at_is_unknown(watch, monkeypatch):
    def gone(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(disk, "read", gone)
    await watch.look()
    assert (watch.room, watch.alarms()) == (None, ())
