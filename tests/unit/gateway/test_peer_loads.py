from llmgw.gateway.peer_loads import EXPIRES_S, PeerLoads, total
from llmgw.gateway.peer_records import PeerLoad


def say(loads, gateway, sequence, at=0.0, run="a", **in_flight):
    return loads.take(gateway, run, PeerLoad(sequence=sequence, in_flight=in_flight), at=at)


def test_the_load_of_all_other_gateways_is_summed_up():
    loads = PeerLoads()
    say(loads, "g2", 1, r1=2, r2=1)
    say(loads, "g3", 1, r1=3)
    assert loads.elsewhere(1.0) == {"r1": 5, "r2": 1}
    assert loads.known(1.0) == ("g2", "g3")


def test_a_later_word_replaces_the_one_before_and_an_older_or_repeated_one_changes_nothing():
    loads = PeerLoads()
    assert say(loads, "g2", 5, r1=2)
    assert say(loads, "g2", 6, at=2.9, r1=2, r2=4)
    before = loads.elsewhere(2.9)
    assert not say(loads, "g2", 6, at=3.0, r1=9)
    assert not say(loads, "g2", 5, at=3.0, r1=9)
    assert loads.elsewhere(3.0) == before == {"r1": 2, "r2": 2}


def test_a_change_is_taken_over_within_seconds_and_what_lasts_whole():
    loads = PeerLoads()
    say(loads, "g2", 1, r1=100)
    told = {}
    for second in range(1, 61):
        say(loads, "g2", 1 + second, at=float(second), r2=100)
        told[second] = loads.elsewhere(second)
    assert told[1] == {"r1": 82, "r2": 18}
    assert told[5] == {"r1": 37, "r2": 63}
    assert told[60] == {"r2": 100}


def test_what_is_less_than_half_a_request_is_none_so_that_equals_stay_equal():
    loads = PeerLoads()
    say(loads, "g2", 1)
    say(loads, "g2", 2, at=0.25, r1=1, r2=4)
    assert loads.elsewhere(0.25) == {}


def test_a_word_that_is_not_newer_is_no_sign_of_life():
    loads = PeerLoads()
    say(loads, "g2", 5, r1=2)
    say(loads, "g2", 5, at=2.0, r1=2)
    assert loads.elsewhere(EXPIRES_S) == {}


def test_a_gateway_that_started_again_counts_anew():
    loads = PeerLoads()
    say(loads, "g2", 500, run="a", r1=2)
    assert say(loads, "g2", 1, run="b", r1=1)
    assert loads.elsewhere(0.0) == {"r1": 1}


def test_the_load_of_a_silent_gateway_ends():
    loads = PeerLoads()
    say(loads, "g2", 1, r1=2)
    say(loads, "g3", 1, at=1.0, r1=1)
    assert loads.elsewhere(EXPIRES_S - 0.01) == {"r1": 3}
    assert loads.elsewhere(EXPIRES_S) == {"r1": 1}
    assert loads.known(EXPIRES_S) == ("g3",)
    assert loads.elsewhere(EXPIRES_S + 1.0) == {}


def test_the_sum_of_nothing_is_nothing():
    assert total([]) == {}
    assert total([{"r1": 1}, {"r1": 2, "r2": 1}]) == {"r1": 3, "r2": 1}
