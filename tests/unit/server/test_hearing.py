from llmgw.server.hearing import BEAT_S, HearingClock
from llmgw.testing.clock import FakeClock


def test_a_loop_that_was_stuck_heard_nothing_meanwhile():
    clock = FakeClock()
    hearing = HearingClock(clock)
    for _ in range(8):
        clock.advance(BEAT_S)
        hearing.beat()
    before = hearing.monotonic()
    assert before == 8 * BEAT_S
    clock.advance(60)
    assert hearing.monotonic() == before + 2 * BEAT_S
    hearing.beat()
    assert hearing.monotonic() == before + 2 * BEAT_S


def test_wall_time_is_the_clocks_own():
    clock = FakeClock()
    hearing = HearingClock(clock)
    clock.advance(60)
    assert hearing.now() == clock.now()
