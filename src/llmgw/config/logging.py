"""How a process logs."""

from enum import StrEnum


class LogLevel(StrEnum):
    """What is worth a line."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line looks."""

    AUTO = "auto"
    """`console` on a terminal, else `json`."""
    CONSOLE = "console"
    JSON = "json"
