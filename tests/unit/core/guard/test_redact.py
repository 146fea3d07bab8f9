from llmgw.core.guard.redact import merged, redacted, shifted
from llmgw.schema.guard.verdict import Span


def span(start, end, kind="k"):
    return Span(start=start, end=end, kind=kind)


def test_places_that_overlap_become_one_and_those_that_touch_do_not():
    assert merged([span(4, 6), span(0, 3), span(2, 4)]) == [span(0, 4), span(4, 6)]


def test_text_around_places_stays_as_it_is():
    assert redacted("abcdef", [span(1, 3), span(4, 5)]) == "a[k]d[k]f"


def test_an_operator_may_choose_what_stands_there():
    assert redacted("abc", [span(1, 2)], "*") == "a*c"


def test_no_place_leaves_the_text():
    assert redacted("abc", []) == "abc"


def test_places_move_from_a_window_to_its_text():
    assert shifted([span(1, 2)], 10) == (span(11, 12),)
