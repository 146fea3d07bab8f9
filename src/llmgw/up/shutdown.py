"""Stopping everything of one machine in an order that hurts nobody, whoever is left to do it."""

import subprocess
import sys
from contextlib import suppress

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
    engines, so that it does not start them again.
    """
    by_name = {child.name: child for child in state.children}
    for name, grace_s in (("gateway", _GATEWAY_GRACE_S), ("agent", _GRACE_S)):
        if name in by_name:
            stop(by_name[name], grace_s=grace_s)
    if layout.config("agent").exists():
        argv = [sys.executable, "-m", "llmgw", "agent", "--config", str(layout.config("agent")), "--stop-engines"]
        with layout.log("agent").open("ab") as output, suppress(subprocess.TimeoutExpired):
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=_ENGINES_S, check=False
            )
    if "server" in by_name:
        stop(by_name["server"], grace_s=_GRACE_S)
    layout.state.unlink(missing_ok=True)
