from llmgw.core.breaker import BASE_S, FULL_MAX_S, MAX_S, PROBE_S, STUMBLES, Breaker


def test_one_that_cannot_be_reached_is_left_out_at_once_and_twice_as_long_each_time():
    breaker, waits = Breaker(), []
    for _ in range(8):
        breaker.failed(100.0)
        waits.append(breaker.ejected_until - 100.0)
    assert waits[:4] == [BASE_S, 2 * BASE_S, 4 * BASE_S, 8 * BASE_S]
    assert waits[-1] == MAX_S
    breaker.answered()
    assert (breaker.ejected_until, breaker.strikes) == (0.0, 0)


def test_one_broken_answer_alone_is_no_sickness_and_several_in_a_row_are():
    breaker = Breaker()
    for _ in range(STUMBLES - 1):
        breaker.stumbled(100.0)
    assert breaker.ejected_until == 0.0
    breaker.answered()
    for _ in range(STUMBLES - 1):
        breaker.stumbled(100.0)
    assert breaker.ejected_until == 0.0
    breaker.stumbled(100.0)
    assert breaker.ejected_until == 100.0 + BASE_S


def test_half_open_it_is_tried_by_one_request_whose_end_decides():
    breaker = Breaker()
    breaker.failed(100.0)
    later = 100.0 + BASE_S
    assert breaker.ejected_until <= later
    breaker.tried(later)
    assert breaker.ejected_until == later + PROBE_S, "nobody else goes there meanwhile"
    breaker.stumbled(later + 0.1)
    assert breaker.ejected_until == later + 0.1 + 2 * BASE_S
    breaker.tried(later + 5)
    breaker.answered()
    assert breaker.ejected_until == 0.0


def test_while_it_is_closed_everybody_goes_there():
    breaker = Breaker()
    breaker.tried(100.0)
    assert breaker.ejected_until == 0.0


def test_one_without_room_is_spared_for_a_moment_and_no_sicker_for_it():
    breaker = Breaker()
    breaker.full(100.0, None)
    assert breaker.ejected_until == 100.0 + BASE_S
    breaker.full(100.0, 60.0)
    assert (breaker.ejected_until, breaker.strikes) == (100.0 + FULL_MAX_S, 0)
    breaker.full(100.0, 0.0)
    assert breaker.ejected_until == 100.0 + FULL_MAX_S
