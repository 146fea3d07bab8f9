import os
import stat

from llmgw.agent import logs


def test_a_new_start_has_a_private_log_of_its_own(tmp_path):
    path = tmp_path / "shard" / "1.log"
    for text in (b"first start", b"again"):
        descriptor = logs.open_log(path)
        os.write(descriptor, text)
        os.close(descriptor)
    assert logs.read_tail(path) == "again"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_tail_begins_with_a_whole_line(tmp_path):
    path = tmp_path / "x.log"
    path.write_text("one\ntwo\nthree\n")
    assert logs.read_tail(path, 9) == "three\n"
    assert logs.read_tail(path, 100) == "one\ntwo\nthree\n"
    assert logs.read_tail(path, 0) == ""


def test_what_is_not_text_is_read_all_the_same(tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(b"\xff ok\n")
    assert logs.read_tail(path) == "\ufffd ok\n"


def test_the_ends_of_a_long_log_hold_the_first_error_and_the_last_line(tmp_path):
    path = tmp_path / "x.log"
    path.write_text("first cause\n" + "noise\n" * 1000 + "the end\n")
    ends = logs.read_ends(path, 64)
    assert ends.startswith("first cause\nnoise\n")
    assert ends.endswith("noise\nthe end\n")
    assert len(ends) <= 130
    path.write_text("short\n")
    assert logs.read_ends(path, 64) == "short\n"


def test_a_missing_log_is_empty(tmp_path):
    assert logs.read_tail(tmp_path / "none") == ""
    assert logs.read_ends(tmp_path / "none") == ""
    assert logs.size(tmp_path / "none") == 0
    assert logs.newest(tmp_path / "none") is None


def test_the_first_and_the_newest_logs_are_kept(tmp_path):
    for attempt in range(1, 13):
        (tmp_path / f"{attempt}.log").write_text("x")
    logs.prune(tmp_path)
    assert sorted(int(path.stem) for path in tmp_path.iterdir()) == [1, 8, 9, 10, 11, 12]
    assert logs.newest(tmp_path) == 12


def test_logs_of_shards_long_gone_are_removed(tmp_path):
    for name in ("old", "known", "recent"):
        logs_of = tmp_path / name
        logs_of.mkdir()
        (logs_of / "1.log").write_text("x")
        if name != "recent":
            os.utime(logs_of, (1, 1))
    logs.sweep(tmp_path, {"known"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["known", "recent"]
    logs.sweep(tmp_path / "none", set())
