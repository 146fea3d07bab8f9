import pytest
from msgspec.structs import replace

from llmgw.core.guard.judge_status import JudgeEvidence, JudgeTraffic, judge_status
from llmgw.core.guard.judges.canaries import CANARIES
from llmgw.core.guard.judges.diagnosis import CanaryResult, diagnose
from llmgw.core.guard.judges.recognise import Clues, recognise
from llmgw.schema.guard.judge import JudgeFamily, JudgeState
from llmgw.schema.guard.rule import FailureKind
from llmgw.schema.guard.verdict import Verdict, VerdictState, failed, safe
from llmgw.schema.model import Role

UNSAFE = Verdict(state=VerdictState.UNSAFE)
RIGHT = diagnose([CanaryResult(one, UNSAFE if one.unsafe else safe()) for one in CANARIES])
ALWAYS_SAFE = diagnose([CanaryResult(one, safe()) for one in CANARIES])
SILENT = diagnose([CanaryResult(one, failed(FailureKind.TIMEOUT, "")) for one in CANARIES])
HEALTHY = JudgeEvidence(
    model="guard",
    policies=("baseline",),
    timeout_s=5.0,
    role=Role.GUARD,
    recognition=recognise(Clues(file="/models/Llama-Guard-3-1B.gguf")),
    replicas_ready=2,
    replicas_wanted=2,
    canaries=RIGHT,
    canary_s=0.2,
    traffic=JudgeTraffic(answered=100, median_s=0.3),
)


def failures(**counts):
    return {FailureKind(kind): count for kind, count in counts.items()}


EIGHT = {
    JudgeState.ABSENT: {"role": None, "replicas_ready": 0, "canaries": None},
    JudgeState.NOT_A_JUDGE: {"role": Role.CHAT},
    JudgeState.NO_REPLICA: {"replicas_ready": 0, "trouble": "parked after 5 failed starts"},
    JudgeState.WRONG: {"canaries": ALWAYS_SAFE},
    JudgeState.SLOW: {"traffic": JudgeTraffic(answered=3, failures=failures(timeout=7), median_s=4.0)},
    JudgeState.DEAD: {"canaries": SILENT, "traffic": JudgeTraffic(failures=failures(timeout=7, unreachable=2))},
    JudgeState.OVERLOADED: {"traffic": JudgeTraffic(answered=90, failures=failures(overloaded=12), median_s=0.5)},
    JudgeState.HEALTHY: {},
}


def test_eight_situations_have_eight_true_sentences():
    told = {state: judge_status(replace(HEALTHY, **change)).text for state, change in EIGHT.items()}
    assert told == {
        JudgeState.ABSENT: "guard is not in the catalog, and policy baseline asks it",
        JudgeState.NOT_A_JUDGE: "guard is a model in role chat, not a judge in role guard",
        JudgeState.NO_REPLICA: "guard has no replica that is ready: parked after 5 failed starts",
        JudgeState.WRONG: (
            "guard is quarantined: it says safe to all 8 canaries, the unsafe ones too: "
            "its prompt or its weights are wrong"
        ),
        JudgeState.SLOW: "guard is slow: 7 answers in the last minute came later than 5 s or never",
        JudgeState.DEAD: "guard does not answer, though 2 replicas should be ready",
        JudgeState.OVERLOADED: "guard is overloaded: it had no room for 12 requests in the last minute",
        JudgeState.HEALTHY: "guard is healthy: it gives all 8 canaries the right verdict, 2 replicas ready",
    }


@pytest.mark.parametrize("state", EIGHT)
def test_each_situation_has_its_state_and_all_but_health_are_a_problem(state):
    status = judge_status(replace(HEALTHY, **EIGHT[state]))
    assert status.state is state
    assert (status.problem is None) is (state is JudgeState.HEALTHY)
    assert (status.remedy is None) is (state is JudgeState.HEALTHY)


def test_what_enable_cures_names_enable():
    for state, command in (
        (JudgeState.ABSENT, "llmgw ctl guard judge enable guard"),
        (JudgeState.NOT_A_JUDGE, "llmgw ctl guard judge enable guard --replace"),
        (JudgeState.WRONG, "llmgw ctl guard judge enable guard --replace"),
    ):
        assert judge_status(replace(HEALTHY, **EIGHT[state])).remedy == command


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"canaries": None, "traffic": JudgeTraffic()}, JudgeState.UNPROVEN),
        ({"canaries": SILENT, "traffic": JudgeTraffic()}, JudgeState.DEAD),
        # Every answer came too late, but canaries, which may take longer, were answered: slow, not dead.
        ({"canary_s": 8.0, "traffic": JudgeTraffic(failures=failures(timeout=9))}, JudgeState.SLOW),
        ({"canary_s": 4.5, "traffic": JudgeTraffic()}, JudgeState.SLOW),
        (
            {"canaries": SILENT, "traffic": JudgeTraffic(failures=failures(overloaded=9, timeout=1))},
            JudgeState.OVERLOADED,
        ),
        ({"traffic": JudgeTraffic(failures=failures(unreachable=9))}, JudgeState.DEAD),
        ({"traffic": JudgeTraffic(answered=9, failures=failures(unclear=9))}, JudgeState.HEALTHY),
        ({"canaries": ALWAYS_SAFE, "traffic": JudgeTraffic(failures=failures(timeout=9))}, JudgeState.WRONG),
        ({"canaries": ALWAYS_SAFE, "replicas_ready": 0}, JudgeState.NO_REPLICA),
    ],
)
def test_the_first_that_keeps_it_from_judging_is_told(change, state):
    assert judge_status(replace(HEALTHY, **change)).state is state


def test_a_model_in_role_guard_whose_files_are_no_judges_is_none_until_a_policy_says_so():
    plain = replace(HEALTHY, recognition=recognise(Clues(file="/models/SmolLM2.gguf")))
    assert judge_status(plain).text == (
        "guard is in role guard, but its files are those of no judge, and no policy says which family it is"
    )
    forced = judge_status(replace(plain, said=JudgeFamily.PROMPTED))
    assert (forced.state, forced.family, forced.forced) == (JudgeState.HEALTHY, JudgeFamily.PROMPTED, True)


def test_a_judge_that_cannot_be_asked_is_named():
    other = replace(HEALTHY, recognition=recognise(Clues(file="/models/Llama-Guard-4-12B.gguf")))
    assert judge_status(other).text == "guard is Llama Guard 4, which llmgw does not know how to ask"


def test_many_policies_are_named_as_far_as_a_sentence_bears():
    status = judge_status(replace(HEALTHY, role=None, policies=("a", "b", "c", "d", "e")))
    assert status.text == "guard is not in the catalog, and policies a, b, c and 2 more ask it"
