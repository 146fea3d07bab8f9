import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from llmgw.hardware.mounts import Sizes, covering, describe, is_shared, parse_mountinfo, read_sizes

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


def test_a_mount_with_sizes_is_storage_and_without_them_unknown_not_full(tmp_path):
    (mount,) = parse_mountinfo(f"9 1 8:1 / {tmp_path} rw - nfs4 nas:/export rw")
    known = describe(mount, Sizes(total_bytes=10, free_bytes=4))
    assert (known.mount, known.source, known.fstype, known.shared) == (str(tmp_path), "nas:/export", "nfs4", True)
    assert (known.total_bytes, known.free_bytes, known.problem) == (10, 4, None)
    unknown = describe(mount, None, problem="does not answer")
    assert (unknown.total_bytes, unknown.free_bytes, unknown.problem) == (None, None, "does not answer")


def test_space_kept_for_root_is_not_free(tmp_path, monkeypatch):
    found = SimpleNamespace(f_frsize=4096, f_blocks=100, f_bfree=50, f_bavail=40)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    assert read_sizes(str(tmp_path)) == Sizes(total_bytes=409_600, free_bytes=163_840)


def test_the_mount_table_names_the_same_filesystem_as_findmnt():
    mounts = parse_mountinfo((FIXTURES / "mounts/lxc-gpu-container.mountinfo.txt").read_text())
    (said,) = json.loads((FIXTURES / "mounts/findmnt.0.json").read_text())["filesystems"]
    mount = covering(mounts, said["target"])
    assert mount is not None
    assert (f"{mount.source}[{mount.root}]", mount.fstype) == (said["source"], said["fstype"])


def test_a_container_filesystem_over_proc_is_not_shared():
    mounts = parse_mountinfo((FIXTURES / "mounts/lxc-gpu-container.mountinfo.txt").read_text())
    mount = covering(mounts, "/proc/meminfo")
    assert mount is not None
    assert mount.fstype == "fuse.lxcfs"
    assert not is_shared(mount.fstype, mount.source, mount.options)
