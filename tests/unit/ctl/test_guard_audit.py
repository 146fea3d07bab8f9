from llmgw.ctl import guard_audit
from llmgw.schema.guard.coverage import Why


def test_every_reason_has_words():
    assert set(guard_audit._WORDS) == set(Why)
