"""`llmgw down`: end everything an `llmgw up` started, engines included, and verify that it is gone."""

import os
import signal
from contextlib import suppress
from pathlib import Path

from llmgw.schema.errors import LlmgwError
from llmgw.up.layout import Layout
from llmgw.up.port import holder, is_free
from llmgw.up.process import alive, wait_gone
from llmgw.up.shutdown import shut_down
from llmgw.up.state import UpState, read_state

_SUPERVISOR_S = 180.0
"""The sum of all graces the supervisor itself keeps, see `shutdown.py`."""


def down(root: Path) -> bool:
    """Stop everything in the data folder `root`. True when something ran. Raises when something would not end."""
    layout = Layout(root=root.absolute())
    state = read_state(layout.state)
    if state is None:
        return False
    if state.supervisor is not None and alive(state.supervisor):
        with suppress(ProcessLookupError):
            os.kill(state.supervisor.pid, signal.SIGTERM)
        if not wait_gone(state.supervisor, timeout_s=_SUPERVISOR_S):
            raise LlmgwError(
                f"the supervisor (pid {state.supervisor.pid}) does not end", hint=f"its log: {layout.log('supervisor')}"
            )
    if layout.state.exists():
        # The supervisor was killed: nobody else is left to stop what it started.
        shut_down(layout, state)
    _verify(state)
    return True


def _verify(state: UpState) -> None:
    left = [child for child in state.children if alive(child)]
    if left:
        names = ", ".join(f"{child.name} (pid {child.pid})" for child in left)
        raise LlmgwError(f"these processes did not end: {names}", hint="end them by hand, then run llmgw down again")
    for what, number in (("gateway", state.gateway_port), ("API", state.api_port)):
        if not is_free(number):
            owner = holder(number) or "an unknown process"
            raise LlmgwError(
                f"port {number} of the {what} is still held by {owner}", hint="end it by hand; it is not ours"
            )
