"""What answers a client: an exchange, or something that stands before one and translates what is said."""

from collections.abc import Callable
from typing import Protocol

from llmgw.relay.exchange import Headers, Source
from llmgw.relay.request import Request


class Answering(Protocol):
    """An exchange as those see it who answer. Each member means what it means in `relay.exchange.Exchange`."""

    request: Request
    source: Source | None

    @property
    def started(self) -> bool:
        """A byte of the answer's head went out."""

    @property
    def gone(self) -> bool:
        """The client left before `end`."""

    @property
    def paused(self) -> bool:
        """The client does not keep up now."""

    def on_gone(self, callback: Callable[[], object]) -> None:
        """Call `callback` at once when the client leaves before `end`."""

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer and end."""

    def start(self, status: int, headers: Headers, *, content_length: int | None = None) -> None:
        """Send the head."""

    def write(self, data: bytes) -> None:
        """Send a piece of the body."""

    def end(self) -> None:
        """End the answer. Idempotent."""
