from llmgw.core.primary import primary
from llmgw.schema.store import PostgresWord


def word(timeline, *, standby=False):
    return PostgresWord(in_recovery=standby, timeline=timeline)


def test_the_only_host_that_writes_is_the_primary():
    assert primary({"a": word(3, standby=True), "b": word(3), "c": None}) == "b"


def test_of_two_that_write_the_newer_timeline_wins_wherever_it_stands():
    assert primary({"a": word(3), "b": word(4), "c": word(4, standby=True)}) == "b"
    assert primary({"a": word(4), "b": word(3)}) == "a"


def test_nobody_that_answers_and_writes_is_nobody():
    assert primary({"a": None, "b": word(7, standby=True)}) is None
    assert primary({}) is None
