from llmgw.core.pace import KEPT, LEAST_S, MOST_S, Pace


def ended(*times):
    pace = Pace()
    for time in times:
        pace.ended(time)
    return pace


def test_the_wait_is_that_of_all_who_are_ahead_at_the_pace_of_late():
    pace = ended(10.0, 12.0, 14.0, 16.0)
    assert pace.wait_s(5, now=18.0) == 10
    assert pace.wait_s(1, now=18.0) == 2


def test_a_queue_that_has_stood_still_since_makes_it_longer():
    assert ended(10.0, 12.0).wait_s(4, now=52.0) == MOST_S


def test_what_is_not_known_is_not_said():
    assert Pace().wait_s(5, now=1.0) is None
    assert ended(1.0).wait_s(5, now=2.0) is None


def test_it_is_never_at_once_and_never_so_long_that_nobody_comes_again():
    quick = ended(*(number / 100 for number in range(KEPT * 3)))
    assert quick.wait_s(1, now=1.0) == LEAST_S
    assert quick.wait_s(100_000, now=1.0) == MOST_S
