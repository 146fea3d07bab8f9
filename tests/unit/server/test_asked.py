from llmgw.server import asked as module
from llmgw.server.asked import LATELY_S, Asked
from llmgw.testing.clock import FakeClock


def test_a_question_is_fresh_for_a_while_and_each_new_one_renews_it():
    clock = FakeClock()
    asked = Asked(clock)
    asked.note("a")
    asked.note("b")
    clock.advance(LATELY_S - 1)
    asked.note("b")
    assert asked.lately() == {"a", "b"}
    clock.advance(2)
    assert asked.lately() == {"b"}
    asked.forget()
    assert asked.lately() == frozenset()


def test_it_remembers_no_more_than_there_is_room_for_and_makes_room_for_fresh_ones(monkeypatch):
    monkeypatch.setattr(module, "MOST", 2)
    clock = FakeClock()
    asked = Asked(clock)
    for node in ("a", "b", "c"):
        asked.note(node)
    assert asked.lately() == {"a", "b"}
    clock.advance(LATELY_S + 1)
    asked.note("c")
    assert asked.lately() == {"c"}
