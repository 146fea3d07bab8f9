import pytest

from llmgw.link.rounds import HUNG_S, Rounds, redial_delay


def dialled(rounds):
    found = []
    while (address := rounds.next()) is not None:
        found.append(address)
    return found


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_agents_come_back_quickly_at_first_and_more_slowly_later(jitter):
    assert redial_delay(0.0, jitter) <= 0.5
    assert redial_delay(29.9, jitter) <= 0.5
    assert 0.5 <= redial_delay(30.0, jitter) <= 2.0
    assert redial_delay(1e6, jitter) <= 2.0


def test_a_round_dials_each_address_once():
    rounds = Rounds()
    rounds.begin(["a", "b", "a"], 0.0)
    assert dialled(rounds) == ["a", "b"]


def test_after_a_stream_the_others_come_first():
    rounds = Rounds()
    rounds.begin(["a", "b", "c"], 0.0)
    assert rounds.next() == "a"
    rounds.served("a")
    assert rounds.next() is None
    rounds.begin(["a", "b", "c"], 0.0)
    assert dialled(rounds) == ["b", "c", "a"]


def test_whoever_is_said_to_lead_is_dialled_next_but_once_a_round():
    rounds = Rounds()
    rounds.begin(["a", "b", "c"], 0.0)
    assert rounds.next() == "a"
    rounds.leads("c")
    assert rounds.next() == "c"
    rounds.leads("a")
    assert dialled(rounds) == ["b"]
    rounds.begin(["a"], 0.0)
    assert rounds.next() == "a"
    rounds.leads("learnt")
    assert dialled(rounds) == ["learnt"]


def test_one_that_hung_is_passed_over_for_a_while_unless_there_is_no_other():
    rounds = Rounds()
    rounds.hung("a", 0.0)
    rounds.begin(["a", "b"], 1.0)
    assert dialled(rounds) == ["b"]
    rounds.begin(["a"], 1.0)
    assert dialled(rounds) == ["a"]
    rounds.begin(["a", "b"], HUNG_S)
    assert dialled(rounds) == ["a", "b"]
