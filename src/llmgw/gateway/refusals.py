"""Requests the relay answers by itself, before any handler sees them: broken HTTP, limits, timeouts."""

from llmgw.gateway.access_log import AccessLog
from llmgw.gateway.call import RequestIds
from llmgw.gateway.errors import relay_error_body
from llmgw.gateway.metrics import WorkerCounters


class Refusals:
    """Gives such answers OpenAI's shape and an id, counts and logs them."""

    def __init__(self, ids: RequestIds, counters: WorkerCounters, access_log: AccessLog | None) -> None:
        self._ids = ids
        self._counters = counters
        self._access_log = access_log
        self._last_id = b""

    def body(self, status: int, code: str, message: str) -> bytes:
        """Count a refusal and give the body of its answer."""
        self._last_id = self._ids.id_for(None)
        self._counters.refused(status)
        if self._access_log is not None:
            self._access_log.refused(self._last_id.decode(), status, code)
        return relay_error_body(status, code, message)

    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Give the headers of the answer whose body was given last."""
        return ((b"x-request-id", self._last_id),)
