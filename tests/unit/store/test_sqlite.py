from pathlib import Path
from typing import NamedTuple

import pytest

from llmgw.schema.errors import InvalidInput
from llmgw.store.sqlite import refuse_network_filesystem


class Mount(NamedTuple):
    mountpoint: str
    fstype: str


LOCAL_ROOT = Mount("/", "ext4")


@pytest.mark.parametrize("fstype", ["nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "fuse.sshfs", "gpfs"])
def test_a_network_filesystem_is_refused_naming_it_and_what_to_do(fstype):
    with pytest.raises(InvalidInput, match=f"/data, a network filesystem \\({fstype}\\)") as caught:
        refuse_network_filesystem(Path("/data/llmgw/llmgw.db"), [LOCAL_ROOT, Mount("/data", fstype)])
    assert caught.value.field == "store_url"
    assert "local disk" in caught.value.hint


@pytest.mark.parametrize(
    "mounts",
    [
        [],
        [LOCAL_ROOT],
        [LOCAL_ROOT, Mount("/data", "xfs")],
        [Mount("/", "nfs4"), Mount("/data", "tmpfs")],
        [LOCAL_ROOT, Mount("/dat", "nfs4")],
        [LOCAL_ROOT, Mount("/data/other", "nfs4")],
        [LOCAL_ROOT, Mount("/data", "nfs4"), Mount("/data", "ext4")],
    ],
    ids=["none known", "root", "local", "local in network", "name begins alike", "below", "local over network"],
)
def test_the_filesystem_that_holds_the_file_decides(mounts):
    refuse_network_filesystem(Path("/data/llmgw/llmgw.db"), mounts)


def test_a_network_filesystem_mounted_over_a_local_one_counts():
    with pytest.raises(InvalidInput):
        refuse_network_filesystem(Path("/data/x.db"), [Mount("/data", "ext4"), Mount("/data", "nfs4")])


def test_a_link_to_a_network_filesystem_is_followed(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    with pytest.raises(InvalidInput):
        refuse_network_filesystem(tmp_path / "near" / "x.db", [LOCAL_ROOT, Mount(str(tmp_path / "far"), "nfs")])
