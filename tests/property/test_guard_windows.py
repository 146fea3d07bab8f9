"""Windows do not depend on how a text came, and what is no longer than the overlap stands whole in one of them."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.guard.windows import OVERLAP, Splitter, split

WORDS = st.text(alphabet="ab \n\té😀", max_size=60)
TEXTS = st.lists(st.tuples(WORDS, st.integers(1, 40)), max_size=12).map(
    lambda parts: "".join(word * times for word, times in parts)
)


@given(TEXTS, st.lists(st.integers(0, 3000), max_size=30))
def test_any_chunks_give_the_windows_of_the_whole(text, cuts):
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    splitter = Splitter()
    windows = [window for start, end in itertools.pairwise(at) for window in splitter.feed(text[start:end])]
    assert [*windows, *splitter.end()] == split(text)


@given(TEXTS, st.integers(0, 5000), st.integers(1, OVERLAP))
def test_what_is_no_longer_than_the_overlap_is_in_one_window(text, start, length):
    start = min(start, max(len(text) - length, 0))
    piece = text[start : start + length]
    if not piece:
        return
    assert any(window.start <= start and start + len(piece) <= window.end for window in split(text))


@given(TEXTS, st.sampled_from([50, 100, 800]))
def test_windows_cover_every_character_and_move_on(text, size):
    windows = split(text, size, size // 4)
    covered = 0
    for window in windows:
        assert window.start <= covered < window.end or (window.end > covered and window.start == 0)
        covered = window.end
    assert covered == len(text)
    assert all(one.start < other.start for one, other in itertools.pairwise(windows))


def test_every_byte_of_a_text_may_be_a_chunk_of_its_own():
    text = ("the quick brown fox é😀 jumps over the lazy dog " * 60)[:2500]
    splitter = Splitter()
    windows = [window for letter in text for window in splitter.feed(letter)]
    assert [*windows, *splitter.end()] == split(text)
