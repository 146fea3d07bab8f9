from llmgw.server.changes import Changes


def test_all_listeners_are_told_until_they_end():
    changes, told = Changes(), []
    end = changes.subscribe(lambda: told.append("a"))
    changes.subscribe(lambda: told.append("b"))
    changes.notify()
    end()
    changes.notify()
    assert told == ["a", "b", "b"]


def test_a_listener_may_end_while_it_is_told():
    changes, told = Changes(), []
    end = changes.subscribe(lambda: (told.append("a"), end()))
    changes.subscribe(lambda: told.append("b"))
    changes.notify()
    changes.notify()
    assert told == ["a", "b", "b"]
