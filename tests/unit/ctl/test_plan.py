import pytest
from click.testing import CliRunner

from llmgw.ctl.main import ctl
from llmgw.link.api import Api


@pytest.mark.parametrize(
    ("changes", "hurts", "code"),
    [(0, [], 0), (2, [], 10), (2, ["chat has 0 of 1 replica ready until others are"], 11)],
)
def test_the_exit_code_says_whether_anything_changes_and_hurts_when_asked_to(monkeypatch, changes, hurts, code):
    answer = {"changes": changes, "hurts": hurts, "text": "what would be done"}
    monkeypatch.setenv("LLMGW_API", "http://api")
    monkeypatch.setattr(Api, "get", lambda self, path: answer if path == "/api/v1/plan" else None)
    told = CliRunner().invoke(ctl, ["plan", "--exit-code"])
    assert (told.exit_code, told.output) == (code, "what would be done\n")
    assert CliRunner().invoke(ctl, ["plan"]).exit_code == 0
    assert CliRunner().invoke(ctl, ["-o", "json", "plan", "--exit-code"]).exit_code == code
