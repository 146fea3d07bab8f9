from llmgw.core.guard.answer_scan import AnswerScan
from llmgw.core.guard.input_scan import InputScan
from llmgw.core.guard.judges.registry import adapter
from llmgw.core.guard.ledger import Ledger
from llmgw.core.guard.openai_turns import chat_conversation, completion_conversation
from llmgw.core.guard.outlook import answer_view
from llmgw.schema.guard.coverage import Outcome
from llmgw.schema.guard.judge import JudgeFamily
from llmgw.schema.guard.verdict import Verdict, VerdictState, safe
from llmgw.testing.guard_conversations import Place, conversations
from llmgw.testing.guard_policies import rule, rule_set
from llmgw.testing.scripted_judge import WORD, scripted_judge

JUDGE = adapter(JudgeFamily.LLAMA_GUARD_3_1B)
ALL = conversations(marker=WORD)


def judged(view):
    prompt = JUDGE.prompt(view).body
    unsafe = b'"unsafe\\nS9"' in scripted_judge(prompt)
    return Verdict(state=VerdictState.UNSAFE) if unsafe else safe()


def of_input(conversation):
    rules = rule_set(rule())
    scan = InputScan(rules, conversation, ("chat",), Ledger(rules, 1))
    for question in scan.questions(lambda court: 7000):
        scan.answer(question, question.rules[0], judged(question.view))
    return scan.decision.outcome


def of_output(conversation, pieces):
    rules = rule_set(rule())
    scan = AnswerScan(rules.output, Ledger(rules, 1))
    asks = [ask for piece in pieces for ask in scan.feed(piece)]
    for ask in (*asks, *scan.end()):
        scan.answer(ask.window, ask.rules[0], judged(answer_view(conversation.turns, ask.window.text, 7000)))
    return scan.decision.outcome, scan.cleared


def test_there_are_sixty_of_them_with_names_of_their_own():
    assert len({one.name for one in ALL}) == len(ALL) == 60


def test_each_has_the_same_verdict_as_chat_and_completion_plain_and_streamed():
    for one in ALL:
        chat = chat_conversation({"messages": list(one.messages)})
        completion = completion_conversation({"prompt": one.prompt})
        expected = Outcome.BLOCKED if one.unsafe_input else Outcome.ALLOWED
        assert of_input(chat) is of_input(completion) is expected, one.name
        if one.unsafe_input:
            continue
        whole = "".join(one.answer)
        plain, streamed = of_output(chat, [whole]), of_output(completion, one.answer)
        assert plain == streamed, one.name
        outcome, cleared = streamed
        assert outcome is (Outcome.BLOCKED if one.unsafe_output else Outcome.ALLOWED), one.name
        assert WORD not in whole[:cleared]
        if not one.unsafe_output:
            assert cleared == len(whole)


def test_words_far_back_are_further_than_fifteen_thousand_letters():
    for one in ALL:
        if one.place is Place.FAR_BACK:
            assert (
                sum(len(str(message["content"])) for message in one.messages[1:]) + len(one.messages[0]["content"])
                > 15_000
            )
