"""Exit codes: 0 ok, 1 failed, 2 usage (click's own), 3 not found, 4 not reachable or not the API."""

from llmgw.link.api import NotTheApi, Unreachable
from llmgw.schema.errors import LlmgwError, NotFound


def exit_code(error: LlmgwError) -> int:
    """Give the exit code for an error."""
    if isinstance(error, NotFound):
        return 3
    if isinstance(error, Unreachable | NotTheApi):
        return 4
    return 1
