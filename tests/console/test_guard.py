"""Enabling a judge by hand in a real browser: a form, its progress, and the Guard page; with a real engine."""

import json

import pytest
from playwright.sync_api import expect

from llmgw.testing.judge_model import write_judge_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]

POLICIES = {
    "policies": [{"name": "all", "attach": "all", "rules": [{"name": "r", "judge": "guard", "action": "block"}]}]
}


def test_a_missing_judge_is_told_enabled_by_a_form_and_proves_itself(machine, watch, tmp_path):
    weights = machine.weights / "Llama-Guard-3-1B-handmade.gguf"
    write_judge_model(weights)
    file = tmp_path / "policies.json"
    file.write_text(json.dumps(POLICIES))
    machine.ctl("guard", "policy", "apply", "-f", str(file))
    page = watch(machine.root, machine.token).open("/")
    expect(page.locator("#needs")).to_contain_text("Judge guard is not in the catalog")

    page.get_by_role("link", name="Do", exact=True).click()
    expect(page.locator("#actions")).to_contain_text("guard is not in the catalog")
    page.get_by_role("link", name="Enable a judge").click()
    expect(page.get_by_label("Name that policies ask")).to_have_value("guard")
    for _ in range(60):  # the agent looks for new weights now and then
        if page.locator("#none-found").count() == 0:
            break
        page.wait_for_timeout(1_000)
        page.reload()
    page.get_by_role("button", name="Enable").click()

    page.evaluate("window.here = true")
    steps = page.locator("#progress")
    expect(steps.locator("#step-served")).to_contain_text(weights.name)
    expect(steps.locator("#step-proven")).to_contain_text("guard is healthy", timeout=120_000)
    assert page.evaluate("window.here") is True, "it came by itself, without a reload"

    page.get_by_role("link", name="Guard", exact=True).first.click()
    expect(page.locator("#judges")).to_contain_text("healthy")
    expect(page.locator("#policies")).to_contain_text("judge guard, both, block")
