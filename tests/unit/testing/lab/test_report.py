from datetime import UTC, datetime

import pytest

from llmgw.testing.lab.report import render, share

AT = datetime(2026, 12, 1, tzinfo=UTC)
TAKEOVER = {
    "kind": "takeover",
    "how": "stop",
    "agents": 200,
    "series": {"another leads": [0.5, 0.7], "all agents attached": [1.0, 2.0]},
    "answered": 900,
    "failed": 0,
    "engine_starts": 0,
}
GAP = {"kind": "floating", "how": "kill", "gaps": [6.5, 7.25], "interruptions": 1, "answered": 99, "failed": 12}
KILLS = {
    "kind": "kills",
    "seed": 7,
    "kills": 100,
    "acknowledged": 1234,
    "unknown": 5,
    "answers": 9876,
    "failed": 3,
    "faults": 0,
}


@pytest.mark.parametrize(("p", "value"), [(0.5, 10.0), (0.95, 19.0), (1.0, 20.0)])
def test_a_percentile_is_a_value_that_was_seen(p, value):
    assert share([float(number) for number in range(20, 0, -1)], p) == value


def test_the_page_says_where_and_when_and_has_a_row_for_each_series():
    page = render({"takeover-1": TAKEOVER, "floating-1": GAP, "kills": KILLS}, machine="2 shared cores", at=AT)
    assert "on 2026-12-01 on 2 shared cores." in page
    assert "| stopped (SIGTERM) | 200 | 2 | another leads | 0.50 s | 0.70 s | 0.70 s |  |" in page
    assert "| stopped (SIGTERM) | 200 | 2 | all agents attached | 1.00 s | 2.00 s | 2.00 s | 4 s |" in page
    assert "900 answered, 0 failed" in page
    assert "| killed (kill -9) | 2 | 6.50 s | 7.25 s | 7.25 s | 1 | 99 | 12 |" in page
    assert "| 7 | 100 | 1234 | 5 | 9876 | 3 | 0 |" in page


def test_nothing_is_promised_for_other_numbers_of_agents_and_parts_that_did_not_run_are_left_out():
    page = render({"takeover-1": {**TAKEOVER, "agents": 1000}}, machine="m", at=AT)
    assert "| all agents attached | 1.00 s | 2.00 s | 2.00 s |  |" in page
    assert "floating" not in page
    assert "kills" not in page
