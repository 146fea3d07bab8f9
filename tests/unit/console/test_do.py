import pytest

from llmgw.ports import PutPolicy
from llmgw.schema.admin.model import ServeModel
from llmgw.schema.key import AdminRole
from llmgw.schema.model import Role
from llmgw.schema.weights import Weights, WeightsFormat
from llmgw.server.services import models
from llmgw.testing.guard_policies import policy, rule

SOURCE = "/w/Llama-Guard-3-1B-Q8_0.gguf"


@pytest.fixture
async def operator(room, browser):
    answer = await browser.post("/login", data={"token": await room.token(AdminRole.OPERATOR)})
    assert answer.status_code == 303
    return browser


async def _weights(room, *paths):
    await room.put_node(weights=tuple(Weights(path=path, format=WeightsFormat.GGUF, size_bytes=1) for path in paths))


async def test_a_judge_is_enabled_by_a_form_and_its_progress_followed(operator, room):
    await _weights(room, SOURCE)
    await room.fleet.write([PutPolicy(policy=policy("p", rule(judge="org/guard")))])
    assert "org/guard is not in the catalog" in (await operator.get("/do")).text
    form = (await operator.get("/do/judge")).text
    assert 'value="org/guard"' in form, "the judge that policies miss"
    assert SOURCE in form
    answer = await operator.post("/do/judge", data={"name": "org/guard"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/do/judge/progress?name=org%2Fguard")
    model = models.one_model(room.fleet, "org/guard")
    assert (model.role, model.source) == (Role.GUARD, SOURCE)
    page = (await operator.get(answer.headers["location"])).text
    assert f"served in role guard from {SOURCE}" in page
    assert 'hx-get="/do/judge/live?name=org%2Fguard"' in page
    assert (await operator.get("/do/judge/live?name=org%2Fguard")).status_code == 200


async def test_what_is_in_the_way_stands_above_the_form_with_what_was_given(operator, room):
    await _weights(room, SOURCE)
    await models.serve(room.fleet, room.clock, ServeModel(name="guard", source="/w/chat.gguf"), actor="a")
    answer = await operator.post("/do/judge", data={"name": "guard", "source": SOURCE})
    assert answer.status_code == 409
    assert "guard is a model in role chat" in answer.text
    assert f'value="{SOURCE}"' in answer.text
    answer = await operator.post("/do/judge", data={"name": "guard", "source": SOURCE, "replace": "yes"})
    assert answer.status_code == 303


async def test_without_weights_the_form_says_what_to_put_where(operator, room):
    assert "put a GGUF file" in (await operator.get("/do/judge")).text
    answer = await operator.post("/do/judge", data={"name": "guard"})
    assert answer.status_code == 400
    assert "looked for Llama Guard 3 1B" in answer.text


async def test_a_viewer_and_a_page_from_elsewhere_change_nothing(viewer, room):
    await _weights(room, SOURCE)
    assert (await viewer.post("/do/judge", data={"name": "guard"})).status_code == 403
    foreign = {"origin": "http://evil.example"}
    assert (await viewer.post("/do/judge", data={"name": "guard"}, headers=foreign)).status_code == 403
    assert room.fleet.rows.models == ()


async def test_strangers_see_nothing(browser):
    for path in ("/do", "/do/judge", "/do/judge/progress?name=x"):
        assert (await browser.get(path)).headers["location"] == "/login"
    assert (await browser.get("/do/judge/live?name=x")).status_code == 401
    assert (await browser.post("/do/judge", data={"name": "x"})).status_code == 401


async def test_the_progress_of_what_is_not_there_says_so(operator):
    assert (await operator.get("/do/judge/progress?name=x")).status_code == 404


async def test_what_is_typed_is_shown_as_text(operator):
    answer = await operator.post("/do/judge", data={"name": '"><script>x</script>'})
    assert "<script>x" not in answer.text
