import json
import os
import subprocess
from pathlib import Path

from llmgw.hardware import proc

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hardware" / "proc"


def test_a_stat_line_gives_group_session_time_and_start():
    stat = proc.parse_stat((FIXTURES / "procfs-26231-stat.txt").read_text())
    assert (stat.pid, stat.name, stat.state, stat.parent) == (26231, "vim", "R", 5392)
    assert (stat.group, stat.session) == (7446, 5392)
    assert stat.cpu_ticks == 1677 + 44 + 158 + 99
    assert (stat.own_ticks, stat.waited_ticks) == (1677 + 44, 158 + 99)
    assert stat.start_ticks == 82375
    assert stat.resident_pages == 1981


def test_a_name_with_parentheses_and_blanks_ends_at_the_last_parenthesis():
    stat = proc.parse_stat("7 (a) S (b)) T 1 7 7 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 99 0 0")
    assert (stat.name, stat.state, stat.cpu_ticks, stat.start_ticks) == ("a) S (b)", "T", 11, 99)
    assert stat.stopped
    assert not stat.gone


def test_all_processes_of_a_real_engine_share_the_leaders_group():
    stats = [
        proc.parse_stat(one["stat"])
        for one in json.loads((FIXTURES / "vllm-cpu-process-group.json").read_text()).values()
    ]
    assert {stat.group for stat in stats} == {24768}
    assert {stat.name for stat in stats} == {"python", "VLLM::EngineCor", "VLLM::Worker"}


def test_this_process_is_found_with_its_environment_and_place():
    me = proc.read_stat(os.getpid())
    assert me is not None
    assert me.session == os.getsid(0)
    assert any(stat.pid == me.pid for stat in proc.processes())
    assert proc.place().startswith(proc.boot_id() + ":")


def test_an_environment_is_read_by_name():
    command = ["/bin/sh", "-c", "echo on; read wait"]
    child = subprocess.Popen(command, env={"LLMGW_SHARD": "r1.0"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()  # its environment can be read once it runs
        assert proc.environment(child.pid)["LLMGW_SHARD"] == "r1.0"
    finally:
        child.kill()
        child.communicate()


def test_a_zombie_is_gone_and_a_missing_process_is_none():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    zombie = proc.read_stat(child.pid)
    assert zombie is not None
    assert zombie.gone
    child.wait()
    assert proc.read_stat(child.pid) is None
