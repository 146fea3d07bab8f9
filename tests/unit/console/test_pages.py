from datetime import timedelta

import pytest

from llmgw.console.pages import Pages, instant, number, size
from llmgw.testing.clock import FakeClock


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (16 * 1024**3, "16.0 GiB"),
        (3 * 1024**4, "3.0 TiB"),
    ],
)
def test_sizes_are_written_in_binary_units(count, text):
    assert size(count) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (4, "4"), (4.0, "4"), (3.54, "3.5"), (0, "0")])
def test_numbers_are_written_shortly_and_unknown_is_a_dash(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (7200, "2 h"), (86400 * 3, "3 d")],
)
def test_ages_are_written_in_the_largest_unit(seconds, text):
    clock = FakeClock()
    pages = Pages(clock, version="1", files={})
    assert pages.ago(clock.now() - timedelta(seconds=seconds)) == text
    assert pages.ago(None) == "–"


def test_a_moment_names_its_zone():
    assert instant(FakeClock().now()) == "2026-01-02 03:04:05 UTC"
