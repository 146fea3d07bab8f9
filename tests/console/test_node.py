"""A node's page with a real engine: it changes in place, keeps what is open, and a killed engine shows soon."""

import os
import signal

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.fixture
def page(machine, watch):
    (node,) = machine.ctl("node", "list")["nodes"]
    return watch(machine.root, machine.token).open(f"/nodes/{node['id']}")


def test_it_says_how_busy_the_node_is_and_what_its_engine_uses(page):
    expect(page.get_by_role("heading", name="Engines")).to_be_visible()
    engines = page.locator("#engines")
    expect(engines).to_contain_text("counting")
    expect(engines).to_contain_text("MiB", timeout=30_000)
    for words in ("CPU", "RAM", "Load", "Last hour", "Cores busy by model", "Disk", "Weights"):
        expect(page.locator("main")).to_contain_text(words)


def test_it_refreshes_in_place_and_keeps_open_details_and_scroll(page):
    page.evaluate("window.here = true")
    # One of the charts, which come with the first measurement.
    numbers = page.locator("#numbers-cpu-percent")
    numbers.locator("summary").click()
    page.evaluate("window.scrollTo(0, 300)")
    before = page.locator("main").inner_text()
    page.wait_for_function("before => document.querySelector('main').innerText !== before", arg=before)
    page.wait_for_timeout(16_000)  # longer than each part takes to be fetched again
    assert page.evaluate("window.here") is True
    assert page.evaluate("window.scrollY") == 300
    assert numbers.evaluate("one => one.open") is True


def test_a_killed_engine_shows_within_seconds_and_its_successor_too(page, machine):
    engines = page.locator("#engines")
    expect(engines).to_contain_text("ready")
    pid = machine.engine()
    expect(engines).to_contain_text(str(pid))
    os.kill(pid, signal.SIGKILL)
    expect(engines).not_to_contain_text(str(pid), timeout=20_000)
    expect(engines).to_contain_text("ready", timeout=60_000)
