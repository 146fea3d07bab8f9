import hashlib
import subprocess

import pytest

from llmgw.weights.digest import CHUNK, FileChanged, combined, digest_of, stamp


def slowly(path, **more):
    pauses = []
    known = {"mib_per_s": 1, "is_wanted": lambda: True, "sleep": pauses.append}
    return digest_of(str(path), **(known | more)), pauses


def test_a_digest_is_the_sha256_of_the_content(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"x" * (CHUNK + 17))
    (found, digest), pauses = slowly(path)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found == stamp(str(path))
    assert len(pauses) == 2


def test_reading_is_no_faster_than_allowed_and_rests_half_of_the_time(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"x" * CHUNK)
    _, (pause,) = slowly(path, mib_per_s=0.5)
    assert 7 < pause <= 8, "4 MiB at half a MiB a second"
    _, (short,) = slowly(path, mib_per_s=1_000_000)
    assert short > 0


def test_a_file_that_changes_meanwhile_has_no_digest(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"x" * 10)
    with pytest.raises(FileChanged):
        slowly(path, sleep=lambda _: path.write_bytes(b"y" * 11))


def test_reading_ends_when_nobody_wants_the_digest_any_more(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"x" * (3 * CHUNK))
    with pytest.raises(FileChanged):
        slowly(path, is_wanted=lambda: False)


def test_the_digest_of_several_files_can_be_made_by_hand(tmp_path):
    for name in ("b.safetensors", "a.safetensors", "config.json"):
        (tmp_path / name).write_text(name)
    files = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in tmp_path.iterdir()]
    by_hand = subprocess.run(
        "LC_ALL=C sha256sum * | sha256sum", shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert combined(files) == by_hand.stdout.split()[0]
    assert combined(files[:1]) == files[0][1]
