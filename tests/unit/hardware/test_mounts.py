from pathlib import Path

import pytest

from llmgw.hardware.mounts import covering, is_shared, parse_mountinfo, storage_of

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware"
LOCAL = {"/", "/scratch", "/dev/shm", "/tank", "/var/lib/containers/x/merged"}


def shared_filesystems():
    for line in (FIXTURES / "synthetic/mounts-shared-filesystems.txt").read_text().splitlines():
        source, point, fstype, options, *_ = line.split()
        yield source, point, fstype, options.split(",")


@pytest.mark.parametrize(("source", "point", "fstype", "options"), list(shared_filesystems()))
def test_every_network_and_cluster_filesystem_is_shared_and_no_local_one(source, point, fstype, options):
    assert is_shared(fstype, source, options) == (point not in LOCAL)


def test_an_unknown_type_is_shared_when_its_source_is_another_machine():
    assert is_shared("newfs", "filer:/export")
    assert is_shared("newfs", "//filer/share")
    assert not is_shared("newfs", "/dev/sdb1")
    assert is_shared("fuse.somethingnew", "whatever")
    assert not is_shared("fuseblk", "/dev/sdb1")


def test_lines_with_any_number_of_optional_fields_are_parsed():
    mounts = parse_mountinfo((FIXTURES / "mounts/lxc-gpu-container.mountinfo.txt").read_text())
    root = mounts[0]
    assert (root.device, root.root, root.point, root.fstype) == ("253:0", "/var/lib/lxc/node01-lxc/rootfs", "/", "ext4")
    without_optional = parse_mountinfo("900 838 0:56 / /dev rw,relatime - tmpfs none rw,size=492k")
    assert without_optional[0].options == ("rw", "relatime", "rw", "size=492k")


def test_escaped_blanks_in_paths_are_unescaped():
    (mount,) = parse_mountinfo(r"9 1 8:1 / /mnt/my\040models rw - ext4 /dev/sd\134a rw")
    assert mount.point == "/mnt/my models"
    assert mount.source == "/dev/sd\\a"


def test_broken_lines_are_left_out():
    assert parse_mountinfo("nonsense\n\n1 2 3\n") == ()


def test_a_folder_lies_on_the_longest_mount_point_above_it():
    mounts = parse_mountinfo((FIXTURES / "mounts/lxc-gpu-container.mountinfo.txt").read_text())
    found = covering(mounts, "/mnt/lepton-cache/vol-0/models/x")
    assert found is not None
    assert found.source == "/dev/nvme3n1p1"
    sibling = covering(mounts, "/mnt/lepton-cache/vol-00")
    assert sibling is not None
    assert sibling.point == "/"


def test_the_later_of_two_mounts_on_one_point_covers_the_other():
    mounts = parse_mountinfo((FIXTURES / "proc/procfs-26231-mountinfo.txt").read_text())
    found = covering(mounts, "/mnt/nfs/test/a")
    assert found is not None
    assert found.fstype == "nfs"


def test_two_folders_on_one_filesystem_are_one_storage(tmp_path):
    (mount,) = parse_mountinfo(f"9 1 8:1 / {tmp_path} rw - ext4 /dev/sda rw")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (storage,) = storage_of([str(tmp_path / "a"), str(tmp_path / "b")], [mount])
    assert storage.mount == str(tmp_path)
    assert storage.shared is False
    assert storage.free_bytes is not None
    assert storage.problem is None


def test_a_filesystem_that_cannot_be_looked_at_is_unknown_not_full(tmp_path):
    (mount,) = parse_mountinfo(f"9 1 8:1 / {tmp_path}/gone rw - ext4 /dev/sda rw")
    (storage,) = storage_of([f"{tmp_path}/gone/models"], [mount])
    assert storage.free_bytes is None
    assert storage.total_bytes is None
    assert storage.problem == f"{tmp_path}/gone cannot be looked at: No such file or directory"
