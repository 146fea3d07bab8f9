import os
import subprocess
import sys

import msgspec

from llmgw.up.process import alive, identify, stop


def test_a_process_is_itself_and_another_start_with_its_pid_is_not():
    me = identify("me", os.getpid())
    assert me is not None
    assert alive(me)
    assert not alive(msgspec.structs.replace(me, start_time=me.start_time - 1))
    assert not alive(msgspec.structs.replace(me, boot_id="another boot"))


def test_a_process_that_ignores_the_signal_is_killed_with_its_group():
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        process = identify("child", child.pid)
        assert process is not None
        assert stop(process, grace_s=0.2) is False
        assert not alive(process)


def test_a_zombie_counts_as_gone():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    process = identify("child", child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identify("child", child.pid) is None
    assert process is None or not alive(process)
    child.wait()
