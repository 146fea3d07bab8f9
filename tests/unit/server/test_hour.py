import itertools
from array import array

from llmgw.server.hour import SLOTS, STEP_S, Hour, slot_of


def known(points):
    return [(at, value) for at, value in points if value is not None]


def test_an_hour_is_an_even_grid_that_ends_now():
    hour = Hour(most=4)
    hour.put(1000, {"cpu": 12.5})
    points = hour.points("cpu", 1002)
    assert len(points) == SLOTS
    assert (points[-1], points[-3]) == ((1002 * STEP_S, None), (1000 * STEP_S, 12.5))
    assert {later[0] - earlier[0] for earlier, later in itertools.pairwise(points)} == {STEP_S}


def test_what_is_unknown_is_a_gap_and_never_zero_or_the_value_before():
    hour = Hour(most=4)
    hour.put(10, {"cpu": 0.0, "load": 1.0})
    hour.put(11, {"cpu": None, "load": 2.0})
    hour.put(13, {"cpu": 3.0})
    assert [value for _, value in hour.points("cpu", 13)[-4:]] == [0.0, None, None, 3.0]
    assert [value for _, value in hour.points("load", 13)[-4:]] == [1.0, 2.0, None, None]


def test_the_last_word_of_a_slot_stands_and_an_unknown_one_does_not_take_it_away():
    hour = Hour(most=4)
    hour.put(10, {"cpu": 1.0})
    hour.put(10, {"cpu": 2.0})
    hour.put(10, {"cpu": None})
    assert known(hour.points("cpu", 10)) == [(10 * STEP_S, 2.0)]


def test_values_of_the_hour_before_are_never_shown_again():
    hour = Hour(most=4)
    hour.put(10, {"cpu": 1.0})
    hour.put(11, {"cpu": 2.0})
    hour.put(10 + SLOTS, {"cpu": 3.0})
    assert known(hour.points("cpu", 10 + SLOTS)) == [(11 * STEP_S, 2.0), ((10 + SLOTS) * STEP_S, 3.0)]
    assert hour.points("cpu", 10 + 3 * SLOTS) == ()


def test_a_column_leaves_an_hour_after_its_last_value():
    hour = Hour(most=4)
    hour.put(10, {"old": 1.0, "new": 1.0})
    hour.put(10 + SLOTS - 1, {"new": 2.0})
    assert set(hour.columns()) == {"old", "new"}
    hour.put(10 + SLOTS, {"new": 3.0})
    assert hour.columns() == ("new",)


def test_no_more_columns_than_allowed_are_kept():
    hour = Hour(most=2)
    for slot in range(3 * SLOTS):
        hour.put(slot, {f"model-{slot % 7}": 1.0})
    assert len(hour.columns()) == 2
    assert hour.points("model-6", 3 * SLOTS) == ()


def test_a_clock_set_back_loses_the_future_and_nothing_else():
    hour = Hour(most=4)
    hour.put(1000, {"cpu": 1.0})
    hour.put(990, {"cpu": 2.0})
    assert known(hour.points("cpu", 990)) == [(990 * STEP_S, 2.0)]
    hour.put(1000, {"cpu": 3.0})
    assert known(hour.points("cpu", 1000)) == [(990 * STEP_S, 2.0), (1000 * STEP_S, 3.0)]


def test_a_column_takes_eight_bytes_a_point():
    hour = Hour(most=4)
    hour.put(1, {"cpu": 1.0})
    (column,) = hour._columns.values()
    assert isinstance(column, array)
    assert (column.itemsize, len(column)) == (8, SLOTS)


def test_a_moment_has_one_place_on_the_grid():
    assert (slot_of(0.0), slot_of(14.9), slot_of(15.0), slot_of(-0.1)) == (0, 0, 1, -1)
