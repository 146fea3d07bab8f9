import subprocess
import sys

import pytest

from llmgw.cli import main as cli_main
from llmgw.schema.errors import InvalidInput


def llmgw(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llmgw", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **env},
    )


def test_a_mistyped_command_names_the_nearest_and_ends_with_2():
    done = llmgw("ctl", "stauts")
    assert done.returncode == 2
    assert "Did you mean 'status'?" in done.stderr


@pytest.mark.parametrize("process", ["server", "agent", "door"])
def test_a_process_without_a_configuration_says_how_to_get_one(process: str):
    done = llmgw(process)
    assert done.returncode == 2
    assert f"llmgw config example {process}" in done.stderr


def test_a_closed_port_is_one_line_and_ends_with_4():
    done = llmgw("ctl", "status", LLMGW_API="http://127.0.0.1:9", LLMGW_TOKEN="x")
    assert done.returncode == 4
    assert "cannot reach http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctl_loads_no_server_code():
    script = (
        "import sys; sys.argv = ['llmgw', 'ctl', 'model', 'list', '--help']\n"
        "from llmgw.cli.main import cli\n"
        "cli(standalone_mode=False)\n"
        "heavy = {'sqlalchemy', 'starlette', 'aiohttp', 'uvloop', 'websockets', 'asyncio'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_an_error_out_of_tasks_that_ran_together_is_told_as_the_line_it_is(monkeypatch, capsys):
    def broken(**_: object) -> None:
        inner = ExceptionGroup("tasks", [InvalidInput("the door is shut", hint="open it")])
        raise ExceptionGroup("more tasks", [inner])

    monkeypatch.setattr(cli_main.cli, "main", broken)
    with pytest.raises(SystemExit) as ended:
        cli_main.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "llmgw: the door is shut\n       open it\n"


def test_a_defect_beside_such_an_error_is_not_hidden(monkeypatch):
    def broken(**_: object) -> None:
        raise ExceptionGroup("tasks", [InvalidInput("the door is shut"), ZeroDivisionError()])

    monkeypatch.setattr(cli_main.cli, "main", broken)
    with pytest.raises(ExceptionGroup):
        cli_main.main()
