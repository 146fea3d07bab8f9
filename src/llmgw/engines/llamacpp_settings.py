"""What the adapter hands to the launcher on standard input."""

from llmgw.schema.model import Role
from llmgw.schema.value import Value

READY_MARK = "LLMGW-READY "
FAILED_MARK = "LLMGW-FAILED "
PROGRESS_MARK = "LLMGW-PROGRESS "

EXIT_CONFIGURATION = 11
"""The launcher's exit status for a start that failed in an orderly way: settings, weights, memory."""


class Settings(Value, frozen=True, kw_only=True):
    """One engine to run. Holds the key: never logged, never in argv."""

    shard: str
    model: str
    path: str
    role: Role
    key: str
    context: int
    """Tokens per slot."""
    slots: int
    threads: int
    verbosity: int
    grace_s: float
    flags: dict[str, str]
    chat_template: str | None = None
    host: str = "127.0.0.1"

    def __repr__(self) -> str:
        return f"Settings(shard={self.shard!r}, model={self.model!r}, path={self.path!r})"


class Failed(Value, frozen=True, kw_only=True):
    """What the launcher says when a start failed. `cause` is in words where the launcher itself knows it."""

    error: str
    cause: str | None = None
    interrupted: bool = False
    """Nobody's fault: whoever started the launcher was gone before it had said what to run."""


class Progressing(Value, frozen=True, kw_only=True):
    """What the launcher says while it starts."""

    doing: str
