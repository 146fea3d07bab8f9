from llmgw.core.guard.answer_scan import AnswerScan
from llmgw.core.guard.frame_gate import FrameGate
from llmgw.core.guard.ledger import Ledger
from llmgw.schema.guard.rule import Action
from llmgw.schema.guard.verdict import safe
from llmgw.testing.guard_policies import rule, rule_set


def gate(*rules):
    those = rule_set(*rules)
    scans = {name: AnswerScan(those.output, Ledger(those, 1)) for name in ("a", "b")}
    return FrameGate(scans.__getitem__), scans


def test_frames_leave_in_order_once_their_text_is_cleared():
    held, scans = gate(rule())
    scans["a"].feed("one")
    held.put("first", {"a": (0, 3)})
    held.put("no text", {})
    assert held.free() == []
    (ask,) = scans["a"].end()
    scans["a"].answer(ask.window, ask.rules[0], safe())
    assert [one.frame for one in held.free()] == ["first", "no text"]
    assert len(held) == 0


def test_a_frame_waits_for_every_text_in_it():
    held, scans = gate(rule())
    scans["a"].feed("one")
    scans["b"].feed("two")
    held.put("both", {"a": (0, 3), "b": (0, 3)})
    (ask,) = scans["a"].end()
    scans["a"].answer(ask.window, ask.rules[0], safe())
    assert held.free() == []


def test_text_goes_out_redacted_wherever_frames_cut_it():
    held, scans = gate(rule(pattern="secret", action=Action.REDACT))
    text = "a secret b"
    scans["a"].feed(text)
    scans["a"].end()
    for step in (1, 3, 4, 10):
        pieces = [held.text("a", text[start : start + step], start) for start in range(0, len(text), step)]
        assert "".join(pieces) == "a [pattern] b"
