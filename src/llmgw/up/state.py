"""What runs, on disk: the next `llmgw up` adopts it, `llmgw down` ends it."""

from pathlib import Path

import msgspec

from llmgw.config.contexts import replace_private
from llmgw.schema.value import Value
from llmgw.up.process import Process


class UpState(Value, frozen=True, kw_only=True):
    """The processes of one `llmgw up` and the ports it chose, which stay while anything is adopted."""

    gateway_port: int
    api_port: int
    agent_port: int
    door_port: int
    supervisor: Process | None = None
    children: tuple[Process, ...] = ()
    model: str | None = None
    """Source asked for at the start."""
    name: str | None = None
    """Name asked for at the start."""


def read_state(path: Path) -> UpState | None:
    """Read the state; `None` when there is none or it is damaged (then nothing can be adopted)."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=UpState)
    except (OSError, msgspec.DecodeError):
        return None


def write_state(path: Path, state: UpState) -> None:
    """Replace the state as a whole."""
    replace_private(path, msgspec.json.format(msgspec.json.encode(state)).decode() + "\n")
