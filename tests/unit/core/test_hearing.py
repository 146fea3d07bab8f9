import pytest

from llmgw.core.hearing import LONGEST_BEAT_S, Hearing


def heard(beats):
    """Give the hearing time after beats at these moments."""
    hearing = Hearing(heard_s=0.0, beat_at=beats[0])
    for beat in beats[1:]:
        hearing = hearing.beat(beat)
    return hearing


def test_beats_in_time_hear_all_of_it():
    assert heard([100.0, 100.25, 100.5, 101.0]).at(101.2) == pytest.approx(1.2)


def test_a_late_beat_was_deafness():
    assert heard([100.0, 160.0, 160.25]).at(160.25) == pytest.approx(LONGEST_BEAT_S + 0.25)


def test_a_beat_that_is_late_now_is_deafness_before_it_comes():
    assert heard([100.0]).at(9999.0) == LONGEST_BEAT_S


def test_a_clock_that_went_back_hears_nothing_and_breaks_nothing():
    assert heard([100.0, 100.5]).at(50.0) == 0.5
