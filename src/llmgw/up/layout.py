"""Where everything of `llmgw up` lies, and what was asked for."""

import os
from pathlib import Path

from llmgw.schema.value import Value


class Layout(Value, frozen=True, kw_only=True):
    """The data folder of one `llmgw up` and the files in it."""

    root: Path

    @property
    def state(self) -> Path:
        """Which processes run, see `state.py`."""
        return self.root / "up.json"

    @property
    def lock(self) -> Path:
        """Held by the supervisor for its whole life."""
        return self.root / "up.lock"

    @property
    def credentials(self) -> Path:
        """Base URL, API key, API URL and admin token (mode 0600)."""
        return self.root / "credentials.json"

    @property
    def hub_socket(self) -> Path:
        """Where the gateway reaches the control plane."""
        return self.root / "hub.sock"

    @property
    def agent_token(self) -> Path:
        """Shared by control plane and agent of this machine."""
        return self.root / "agent-token"

    def config(self, process: str) -> Path:
        """Give the TOML file of one process."""
        return self.root / f"{process}.toml"

    def log(self, process: str) -> Path:
        """Give the log file of one process."""
        return self.root / "logs" / f"{process}.log"

    def data(self, process: str) -> Path:
        """Give the data folder of one process."""
        return self.root / process


def default_root() -> Path:
    """The user's data folder for llmgw."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "llmgw"


class Request(Value, frozen=True, kw_only=True):
    """What the caller of `llmgw up` asked for. `None` is "whatever there is"."""

    data_dir: Path
    gateway_port: int | None = None
    api_port: int | None = None
    model: str | None = None
    """Path or source of the weights."""
    name: str | None = None
    """Name clients will use."""
