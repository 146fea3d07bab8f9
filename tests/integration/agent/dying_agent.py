"""The agent, which kills itself with -9 at one step of an engine's start. Not a test.

python dying_agent.py STEP agent --config FILE
"""

import os
import signal
import sys

from llmgw.agent import process_group
from llmgw.agent.engine_run import EngineRun
from llmgw.agent.local_state import LocalState
from llmgw.agent.shard_status import ShardStatus
from llmgw.cli.main import cli


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def is_door(arguments):
    """The door is started like an engine, and earlier."""
    return any(str(argument).startswith("door-") for argument in arguments)


def before(owner, name):
    original = getattr(owner, name)

    def dying(*arguments, **named):
        if not is_door(arguments):
            die()
        return original(*arguments, **named)

    setattr(owner, name, dying)


def after(owner, name):
    original = getattr(owner, name)

    def dying(*arguments, **named):
        result = original(*arguments, **named)
        if not is_door(arguments):
            die()
        return result

    setattr(owner, name, dying)


def feeding(share):
    def dying(stdin, data):
        stdin.write(data[: int(share * len(data))])
        stdin.flush()
        if data:
            die()
        stdin.close()

    process_group._write_all = dying


STEPS = {
    "nothing is written": lambda: before(LocalState, "save_record"),
    "the record is written": lambda: before(process_group, "start"),
    "the process runs": lambda: before(process_group, "_enclose"),
    "the process is in its group": lambda: after(process_group, "_enclose"),
    "its identity is known": lambda: before(ShardStatus, "started"),
    "its identity is written": lambda: after(ShardStatus, "started"),
    "its settings are half written": lambda: feeding(0.5),
    "its settings are written": lambda: feeding(1.0),
    "it is ready": lambda: before(EngineRun, "_became_ready"),
    "its readiness is written": lambda: after(EngineRun, "_became_ready"),
}

if __name__ == "__main__":
    STEPS[sys.argv.pop(1)]()
    cli()
