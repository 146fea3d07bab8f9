"""Records on their way to the control plane."""

from llmgw.gateway.guard.audit import AT_ONCE, MOST, Audit


def test_each_record_is_given_once_and_the_newest_are_kept():
    audit = Audit()
    audit.add(range(MOST + 5))
    given = []
    while some := audit.take():
        assert len(some) <= AT_ONCE
        given += some
    assert given == list(range(5, MOST + 5))
