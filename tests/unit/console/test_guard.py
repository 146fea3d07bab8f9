from llmgw.ports import PutModel, PutPolicy
from llmgw.schema.demand import AuditEntry, DemandReport, JudgeReport
from llmgw.schema.guard.coverage import Coverage, Outcome
from llmgw.schema.guard.judge import CanaryReport, CanaryState
from llmgw.schema.guard.policy import Attachment
from llmgw.schema.model import Model, Role
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.testing.guard_policies import policy, rule

SAFE = CanaryReport(state=CanaryState.ALWAYS_SAFE, right=2, total=4, text="says safe to everything")


async def _judge(room):
    weights = Weights(path="/w/Llama-Guard-3-1B.gguf", format=WeightsFormat.GGUF, size_bytes=1)
    await room.put_node(weights=(weights,))
    model = Model(name="guard", source=weights.path, role=Role.GUARD, created_at=room.clock.now())
    await room.fleet.write([PutModel(model=model)])
    await room.put_replica("r1", "guard")


async def test_a_stranger_is_sent_to_the_login_and_an_ended_session_too(browser):
    assert (await browser.get("/guard")).headers["location"] == "/login"
    assert (await browser.get("/guard/live")).status_code == 401


async def test_judges_policies_and_what_they_did_stand_on_one_page(viewer, room):
    await _judge(room)
    attached = policy("kiosk", rule(name="words", pattern="secret-project-x"), attach=Attachment(keys=("lk_1",)))
    await room.fleet.write([PutPolicy(policy=policy("all", rule(judge="guard"))), PutPolicy(policy=attached)])
    coverage = Coverage(outcome=Outcome.BLOCKED, by=("all/r",))
    entry = AuditEntry(
        at=room.clock.now(), request_id="q", key="lk_1", project="p", model="chat", surface="chat", coverage=coverage
    )
    report = JudgeReport(canaries=SAFE, quarantined=True)
    room.board.report(DemandReport(gateway="g", seq=1, judges={"guard": report}, audit=(entry,)))
    page = (await viewer.get("/guard")).text
    assert "guard is quarantined: it says safe to everything" in page
    assert "2 of 4 right" in page
    assert "keys lk_1" in page
    assert "1 blocked" in page
    assert "all/r" in page
    assert "secret-project-x" not in page, "patterns may tell what is looked for"


async def test_a_judge_with_a_problem_stands_on_the_overview_with_what_helps(viewer, room):
    await room.fleet.write([PutPolicy(policy=policy("all", rule(judge="guard")))])
    page = (await viewer.get("/")).text
    assert "Judge guard is not in the catalog, and policy all asks it." in page
    assert "llmgw ctl guard judge enable guard" in page


async def test_without_policies_the_page_says_so(viewer):
    page = (await viewer.get("/guard")).text
    assert "No policies: requests pass as they are." in page
    assert "No policy asks a judge." in page
