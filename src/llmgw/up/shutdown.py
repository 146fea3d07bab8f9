"""Stopping everything of one machine in an order that hurts nobody, whoever is left to do it."""

import subprocess
import sys

from llmgw.schema.errors import LlmgwError
from llmgw.up.layout import Layout
from llmgw.up.process import stop
from llmgw.up.state import UpState

_GATEWAY_GRACE_S = 35.0
"""The gateway lets open answers end for up to 30 s (`drain_s`)."""
_GRACE_S = 15.0
_ENGINES_S = 90.0


def shut_down(layout: Layout, state: UpState) -> None:
    """Stop gateway, agent, engines and door, then the server; each is ended and verified gone.

    The gateway goes first, so that open answers end while their engines still run. The agent goes before its
    engines, so that it does not start them again. Raises `LlmgwError` when engines would not end; the state then
    stays, so that the next `llmgw down` tries again.
    """
    by_name = {child.name: child for child in state.children}
    for name, grace_s in (("gateway", _GATEWAY_GRACE_S), ("agent", _GRACE_S)):
        if name in by_name:
            stop(by_name[name], grace_s=grace_s)
    _stop_engines(layout)
    if "server" in by_name:
        stop(by_name["server"], grace_s=_GRACE_S)
    layout.state.unlink(missing_ok=True)


def _stop_engines(layout: Layout) -> None:
    if not layout.config("agent").exists():
        return
    argv = [sys.executable, "-m", "llmgw", "agent", "--config", str(layout.config("agent")), "--stop-engines"]
    hint = f"the agent's log says more: {layout.log('agent')}; then run llmgw down again"
    with layout.log("agent").open("ab") as output:
        try:
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=_ENGINES_S, check=True)
        except subprocess.TimeoutExpired as error:
            raise LlmgwError(f"engines did not end within {_ENGINES_S:g} s", hint=hint) from error
        except subprocess.CalledProcessError as error:
            raise LlmgwError(f"engines could not be stopped (status {error.returncode})", hint=hint) from error
