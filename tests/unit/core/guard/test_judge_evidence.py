from datetime import UTC, datetime

from llmgw.core.guard.judge_evidence import asked_judges, judge_entries, judge_evidence, needed_judges
from llmgw.core.guard.judge_status import judge_status
from llmgw.core.snapshot import ModelSnapshot, NodeSnapshot, Snapshot
from llmgw.schema.demand import JudgeReport
from llmgw.schema.guard.judge import CanaryReport, CanaryState, JudgeFamily, JudgeState
from llmgw.schema.guard.rule import Action, FailureKind
from llmgw.schema.model import Model, ModelStatus, Role
from llmgw.schema.node import Host, Node, NodeFacts, NodeState
from llmgw.schema.plan import Allocation, Claim
from llmgw.schema.replica import Replica, ReplicaState, Shard
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.testing.guard_policies import policy, rule

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = "/w/Llama-Guard-3-1B.gguf"
JUDGE = Model(name="guard", source=SOURCE, role=Role.GUARD, created_at=NOW)
POLICIES = (policy("p", rule(judge="guard", timeout_s=4.0)), policy("q", rule(judge="guard", timeout_s=9.0)))
RIGHT = CanaryReport(state=CanaryState.RIGHT, right=4, total=4, text="gave the right verdict on all 4 canaries")
SAFE = CanaryReport(state=CanaryState.ALWAYS_SAFE, right=2, total=4, text="says safe to everything")
SILENT = CanaryReport(state=CanaryState.SILENT, right=0, total=0, text="answered no canary")


def node(*weights, name="n1"):
    facts = NodeFacts(
        hostname=name,
        address="10.0.0.1",
        place="p",
        agent_version="1",
        host=Host(os="o", kernel="k", machine="m"),
        weights=tuple(weights),
    )
    return Node(id=name, facts=facts, registered_at=NOW)


def weights(path=SOURCE, **fields):
    return Weights(path=path, format=WeightsFormat.GGUF, size_bytes=1, **fields)


def fleet(*models, ready=1, nodes=None):
    shard = Shard(id="r.0", rank=0, allocation=Allocation(node="n1"), key="k")
    replica = Replica(
        id="r", model="guard", revision=1, state=ReplicaState.READY, shards=(shard,), created_at=NOW, state_since=NOW
    )
    return Snapshot(
        now=NOW,
        nodes=tuple(NodeSnapshot(node=one, state=NodeState.READY) for one in nodes or (node(weights()),)),
        models=tuple(
            ModelSnapshot(model=model, status=ModelStatus(model=model.name), claim=Claim()) for model in models
        ),
        replicas=(replica,) * ready,
    )


def told(snapshot, *reports, policies=POLICIES, trouble="it is starting"):
    (evidence,) = judge_evidence(policies, snapshot, {"guard": reports}, {"guard": trouble})
    return judge_status(evidence)


def test_a_judge_is_known_by_all_its_policies_and_the_shortest_limit():
    (one,) = asked_judges(POLICIES)
    assert (one.policies, one.timeout_s, one.enforced) == (("p", "q"), 4.0, True)


def test_eight_states_are_eight_different_true_sentences():
    chat = Model(name="guard", source="/w/chat.gguf", role=Role.CHAT, created_at=NOW)
    right = JudgeReport(canaries=RIGHT, answers=3, slowest_s=0.2)
    statuses = (
        told(fleet()),
        told(fleet(chat), right),
        told(fleet(JUDGE, ready=0)),
        told(fleet(JUDGE), JudgeReport(canaries=SAFE)),
        told(fleet(JUDGE), JudgeReport(canaries=RIGHT, answers=2, slowest_s=3.9)),
        told(fleet(JUDGE), JudgeReport(canaries=SILENT, failures={FailureKind.UNREACHABLE: 2})),
        told(fleet(JUDGE), JudgeReport(canaries=RIGHT, answers=1, failures={FailureKind.OVERLOADED: 7})),
        told(fleet(JUDGE), right),
    )
    assert [status.state for status in statuses] == [
        JudgeState.ABSENT,
        JudgeState.NOT_A_JUDGE,
        JudgeState.NO_REPLICA,
        JudgeState.WRONG,
        JudgeState.SLOW,
        JudgeState.DEAD,
        JudgeState.OVERLOADED,
        JudgeState.HEALTHY,
    ]
    assert len({status.text for status in statuses}) == len(statuses)
    assert [status.problem is None for status in statuses] == [False] * 7 + [True]


def test_one_gateway_that_finds_it_wrong_counts_and_silence_only_where_nobody_was_answered():
    silent, right, wrong = (JudgeReport(canaries=one) for one in (SILENT, RIGHT, SAFE))
    assert told(fleet(JUDGE), silent, right).state is JudgeState.HEALTHY
    assert told(fleet(JUDGE), right, wrong).state is JudgeState.WRONG


def test_canaries_of_long_ago_prove_nothing():
    assert told(fleet(JUDGE), JudgeReport(canaries=RIGHT, canaries_age_s=300.0)).state is JudgeState.UNPROVEN


def test_gateways_are_told_the_family_that_a_rule_says_else_the_one_of_the_files():
    nodes = (node(weights()),)
    (entry,) = judge_entries(POLICIES, [JUDGE], nodes)
    assert (entry.family, entry.forced) == (JudgeFamily.LLAMA_GUARD_3_1B, False)
    forced = (policy("p", rule(judge="guard", family=JudgeFamily.PROMPTED)),)
    (entry,) = judge_entries(forced, [JUDGE], nodes)
    assert (entry.family, entry.forced) == (JudgeFamily.PROMPTED, True)
    plain = Model(name="guard", source="/w/chat.gguf", role=Role.GUARD, created_at=NOW)
    assert judge_entries(POLICIES, [plain], nodes)[0].family is None
    assert judge_entries(POLICIES, [Model(name="guard", source=SOURCE, created_at=NOW)], nodes) == ()


def test_what_the_node_read_in_the_file_counts_more_than_its_name():
    renamed = Model(name="guard", source="/w/x.gguf", role=Role.GUARD, created_at=NOW)
    nodes = (
        node(weights("/w/x.gguf", problem="cut off")),
        node(weights("/w/x.gguf", judge=JudgeFamily.QWEN3_GUARD_GEN)),
    )
    assert judge_entries(POLICIES, [renamed], nodes)[0].family is JudgeFamily.QWEN3_GUARD_GEN


def test_only_judges_of_rules_that_do_something_must_stay():
    assert needed_judges(POLICIES, [JUDGE]) == {"guard"}
    assert needed_judges((policy("p", rule(judge="guard", action=Action.SHADOW)),), [JUDGE]) == frozenset()
    assert needed_judges(POLICIES, [Model(name="guard", source=SOURCE, created_at=NOW)]) == frozenset()
