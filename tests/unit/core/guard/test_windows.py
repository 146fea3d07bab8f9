import itertools

import pytest

from llmgw.core.guard.windows import OVERLAP, SIZE, Splitter, split


def test_a_short_text_is_one_window():
    (window,) = split("hello world")
    assert (window.start, window.end, window.text, window.last) == (0, 11, "hello world", True)


def test_nothing_has_no_window():
    assert split("") == []


def test_windows_overlap_and_cover_all():
    text = " ".join(f"word{number}" for number in range(800))
    windows = split(text)
    assert windows[0].start == 0
    assert windows[-1].end == len(text)
    for before, after in itertools.pairwise(windows):
        assert after.start <= before.end - OVERLAP
    assert all(window.text == text[window.start : window.end] for window in windows)


def test_windows_begin_and_end_at_the_edge_of_words():
    text = "abcdefgh " * 500
    for window in split(text)[1:-1]:
        assert window.text[0] == " "
        assert text[window.end] == " "


def test_a_text_without_words_is_cut_all_the_same():
    windows = split("x" * 3000)
    assert [window.end - window.start for window in windows[:-1]] == [SIZE] * (len(windows) - 1)
    assert windows[-1].end == 3000


def test_a_text_that_ends_with_a_window_has_no_window_of_overlap_only():
    splitter = Splitter()
    assert [window.end for window in splitter.feed("x" * SIZE)] == [SIZE]
    assert splitter.end() == []


def test_an_end_that_comes_twice_gives_nothing_more():
    splitter = Splitter()
    splitter.feed("abc")
    assert len(splitter.end()) == 1
    assert splitter.end() == []


def test_windows_must_move_on():
    with pytest.raises(ValueError, match="overlap"):
        Splitter(100, 60)
