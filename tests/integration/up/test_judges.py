"""Judges of a real fleet: what is wrong with them is told in true sentences, and `enable` cures what it can."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest

from llmgw.testing.judge_model import Sickness, write_judge_model

pytestmark = pytest.mark.slow
POLICY = {"name": "all", "attach": "all", "rules": [{"name": "unsafe", "judge": "guard", "action": "block"}]}


@pytest.fixture(scope="module")
def up(new_up: Callable, counting_model: Path) -> Iterator:
    one = new_up()
    weights = one.root / "weights"
    weights.mkdir()
    chat = weights / "counting.gguf"
    chat.write_bytes(counting_model.read_bytes())
    write_judge_model(weights / "Llama-Guard-3-1B-good.gguf")
    write_judge_model(one.root / "Llama-Guard-3-1B-sick.gguf", sickness=Sickness.ALWAYS_SAFE)
    one.up("--model", str(chat), "--name", "counting")
    return one


@pytest.fixture(autouse=True)
def fresh(up):
    """Each test begins with the policy and without a judge."""
    policies = up.root / "policies.json"
    policies.write_text(json.dumps({"policies": [POLICY]}))
    up.ctl("guard", "policy", "apply", "-f", str(policies))
    if any(model["name"] == "guard" for model in up.ctl("model", "list")["models"]):
        up.ctl("model", "remove", "guard")
    wait(up, "absent")


def judge(up):
    (found,) = up.ctl("guard", "judge", "status")["judges"]
    return found


def wait(up, state):
    up.wait_for(lambda: judge(up)["state"] == state, timeout=120, what=f"the judge is {state}")
    return judge(up)


def said_everywhere(up, text):
    """The same sentence stands in the summary and in `ctl status`."""
    (problem,) = up.ctl("status")["judges"]
    return problem["text"] == text and text in up.llmgw("ctl", "status").stdout


def refusal(up):
    with openai.OpenAI(base_url=up.base_url, api_key=up.key, max_retries=0, timeout=60) as client:
        try:
            client.chat.completions.create(
                model="counting", max_tokens=2, messages=[{"role": "user", "content": "how to murder with a bomb"}]
            )
        except openai.APIStatusError as error:
            return error.code
    return None


def test_one_that_is_not_there_is_enabled_from_the_weights_of_a_node_and_judges(up):
    text = judge(up)["text"]
    assert text == "guard is not in the catalog, and policy all asks it"
    assert said_everywhere(up, text)
    assert refusal(up) not in {None, "content_policy_violation"}, "a rule that blocks fails closed"
    done = up.ctl("guard", "judge", "enable", "guard")
    assert done["source"].endswith("/weights/Llama-Guard-3-1B-good.gguf")
    wait(up, "healthy")
    assert "judges" not in up.ctl("status")
    assert refusal(up) == "content_policy_violation"


def test_one_that_says_safe_to_everything_is_found_out_and_gives_way_to_one_that_judges(up):
    sick = str(up.root / "Llama-Guard-3-1B-sick.gguf")
    up.ctl("guard", "judge", "enable", "guard", "--source", sick)
    wrong = wait(up, "wrong")
    assert "says safe to all" in wrong["text"]
    assert said_everywhere(up, wrong["text"])
    assert refusal(up) not in {None, "content_policy_violation"}, "its verdicts count for nothing"
    done = up.ctl("guard", "judge", "enable", "guard", "--replace")
    assert done["source"].endswith("/weights/Llama-Guard-3-1B-good.gguf")
    wait(up, "healthy")


def test_a_plain_chat_model_of_that_name_becomes_a_judge_only_when_told_to(up):
    up.ctl("model", "serve", "guard", "--source", str(up.root / "weights" / "counting.gguf"))
    text = wait(up, "not_a_judge")["text"]
    assert text == "guard is a model in role chat, not a judge in role guard"
    assert said_everywhere(up, text)
    refused = up.llmgw("ctl", "guard", "judge", "enable", "guard", check=False)
    assert refused.returncode == 1
    assert "--replace" in refused.stderr
    up.ctl("guard", "judge", "enable", "guard", "--replace")
    wait(up, "healthy")


def test_one_whose_replicas_cannot_start_is_told_with_the_cause(up):
    broken = up.root / "Llama-Guard-3-1B-broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    up.ctl("model", "serve", "guard", "--role", "guard", "--source", str(broken))
    missing = wait(up, "no_replica")
    assert missing["in_catalog"]
    assert said_everywhere(up, judge(up)["text"])


def test_scaled_to_nothing_it_keeps_a_replica_while_a_policy_needs_it(up):
    up.ctl("guard", "judge", "enable", "guard")
    wait(up, "healthy")
    up.ctl("model", "scale", "guard", "0")
    assert up.ctl("model", "show", "guard")["desired"] == 1
    wait(up, "healthy")
    none = up.root / "none.yaml"
    none.write_text("policies: []\n")
    up.ctl("guard", "policy", "apply", "-f", str(none))
    up.wait_for(lambda: up.ctl("model", "show", "guard")["replicas"] == [], timeout=60, what="nobody needs it any more")
