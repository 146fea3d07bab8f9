import subprocess
import time

import pytest

from llmgw.hardware import cgroup
from llmgw.hardware.mounts import parse_mountinfo, read_mounts


def tree(tmp_path, membership, *, fstype="cgroup2", options="rw"):
    mounts = parse_mountinfo(f"41 31 0:38 / {tmp_path} {options} - {fstype} {fstype} {options}")
    return cgroup.hierarchies(mounts, membership)


def test_the_tightest_quota_on_the_way_up_counts(tmp_path):
    leaf = tmp_path / "a" / "b"
    leaf.mkdir(parents=True)
    (leaf / "cpu.max").write_text("max 100000\n")
    (tmp_path / "a" / "cpu.max").write_text("150000 100000\n")
    limit = cgroup.cpu_limit(tree(tmp_path, "0::/a/b\n"))
    assert limit == cgroup.CpuLimit(cores=1.5, folder=str(tmp_path / "a"))


def test_version_one_limits_are_found_by_their_controller(tmp_path):
    leaf = tmp_path / "box"
    leaf.mkdir()
    (leaf / "memory.limit_in_bytes").write_text("1048576\n")
    (leaf / "memory.usage_in_bytes").write_text("4096\n")
    (leaf / "memory.stat").write_text("cache 1\ntotal_inactive_file 2048\n")
    found = tree(tmp_path, "4:memory:/box\n", fstype="cgroup", options="rw,memory")
    (limit,) = cgroup.memory_limits(found)
    assert (limit.limit_bytes, limit.used_bytes, limit.reclaimable_bytes) == (1048576, 4096, 2048)
    assert cgroup.cpu_limit(found) is None


def test_version_two_memory_without_a_limit_is_no_limit(tmp_path):
    (tmp_path / "memory.max").write_text("max\n")
    assert cgroup.memory_limits(tree(tmp_path, "0::/\n")) == ()


def test_a_membership_that_the_mount_does_not_show_is_read_at_the_mount(tmp_path):
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    assert cgroup.cpu_limit(tree(tmp_path, "0::/another/namespace\n")).cores == 2.0


def test_a_mount_of_a_part_of_the_tree_is_matched_by_its_root(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "cpu.max").write_text("50000 100000\n")
    mounts = parse_mountinfo(f"41 31 0:38 /docker/x {tmp_path} rw - cgroup2 cgroup2 rw")
    assert cgroup.cpu_limit(cgroup.hierarchies(mounts, "0::/docker/x/inner\n")).cores == 0.5


def test_what_a_group_was_charged_is_told_by_both_versions(tmp_path):
    assert cgroup.charged_s(str(tmp_path)) is None
    (tmp_path / "cpuacct.usage").write_text("2500000000\n")
    assert cgroup.charged_s(str(tmp_path)) == 2.5
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert cgroup.charged_s(str(tmp_path)) == 1.5


@pytest.mark.parametrize("text", ["", "max 100000", "-1 100000", "100000 0", "nonsense"])
def test_no_quota_is_no_limit(text):
    assert cgroup.parse_cpu_max(text) is None


def test_a_group_holds_and_kills_what_left_its_session(tmp_path):
    mount = cgroup.unified_mount(read_mounts())
    group = cgroup.ControlGroup.create(mount, f"test-{time.monotonic_ns()}") if mount else None
    if group is None:
        pytest.skip("no writable cgroup2 mount with cgroup.kill here")
    script = "read x; setsid sleep 60 & exec sleep 60"
    child = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, start_new_session=True)
    try:
        assert group.add(child.pid)
        child.stdin.close()
        deadline = time.monotonic() + 20
        while len(group.members()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(group.members()) == 2
    finally:
        group.kill()
        child.wait()
    while group.members() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert group.members() == frozenset()
    group.remove()
    assert not group.add(1)
