"""One request on its way through a worker: what is known of it, for its answer, its metrics and its log line.

Times are of `time.monotonic`: a loop's own clock stands still while its callbacks run, and uvloop's knows whole
milliseconds only.
"""

import itertools
import secrets
import time
from collections.abc import Callable, Sequence

from llmgw.gateway.errors import ApiError
from llmgw.gateway.place import Place
from llmgw.gateway.usage import UsageMeter
from llmgw.relay.answering import Answering

EVENT_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)

CLIENT_LEFT = 499
"""Status in metrics and logs of a request whose client left; nobody sees it on the wire."""

_ID_CHARACTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
_ID_LENGTH = 128


class Call:
    """A request and how it fares."""

    __slots__ = (
        "alias",
        "coverage",
        "ended_at",
        "exchange",
        "first_token_at",
        "gap",
        "held",
        "key",
        "label",
        "meter",
        "model",
        "place",
        "project",
        "replica",
        "request_id",
        "retries",
        "started_at",
        "status",
    )

    def __init__(self, exchange: Answering, request_id: bytes) -> None:
        self.exchange = exchange
        self.request_id = request_id
        self.started_at = time.monotonic()
        self.first_token_at: float | None = None
        self.gap: Callable[[float], None] | None = None
        """Counts the seconds between two pieces of a stream."""
        self.label = ""
        """Name of the route, its surface's `LABEL`; empty for other paths."""
        self.key: str | None = None
        self.project: str | None = None
        self.model: str | None = None
        """Set once the model is known to exist: clients must not choose the labels of metrics."""
        self.alias: str | None = None
        """What the client asked, where that is no model's own name."""
        self.replica: str | None = None
        self.place: Place | None = None
        """At the replica that was asked last."""
        self.retries = 0
        self.status = 0
        self.meter = UsageMeter()
        self.held = False
        """No byte may leave yet: a rule that must answer first has not."""
        self.coverage: str | None = None
        """What the rules covered, in the end."""
        self.ended_at: float | None = None
        """When the client had all of it, where work went on after that."""

    def ended(self) -> None:
        """Note that the client has all it gets."""
        if self.ended_at is None:
            self.ended_at = time.monotonic()

    def first_token(self) -> None:
        """Note the time to first token."""
        self.first_token_at = time.monotonic()
        self.computed()

    def computed(self) -> None:
        """Note that the engine's first token came, whether or not the client may have it yet."""
        if self.place is not None:
            self.place.began()

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole answer with the request's id; as one event where a stream was begun already."""
        self.status = status
        if self.exchange.started:
            self.exchange.write(b"data: " + body.replace(b"\n", b" ") + b"\n\n")
            self.exchange.end()
            return
        self.exchange.respond(status, [*headers, (b"x-request-id", self.request_id)], body)

    def comment(self, text: str) -> None:
        """Tell a stream that its answer is on the way; begins it where nothing went out yet."""
        if self.exchange.gone or self.held:
            return
        if not self.exchange.started:
            self.status = 200
            self.exchange.start(200, [*EVENT_STREAM_HEADERS, (b"x-request-id", self.request_id)])
        self.exchange.write(b": " + " ".join(text.split()).encode() + b"\n\n")

    def fail(self, error: ApiError) -> None:
        """Answer with an error."""
        self.respond(error.status, error.all_headers(), error.body())


class RequestIds:
    """Makes ids that no other worker makes: a random beginning, then a number."""

    def __init__(self) -> None:
        self._begin = f"req_{secrets.token_hex(8)}".encode()
        self._numbers = itertools.count(1)

    def id_for(self, given: bytes | None) -> bytes:
        """Take the client's own id when it is harmless, else make one."""
        if given and len(given) <= _ID_LENGTH and _ID_CHARACTERS.issuperset(given):
            return given
        return b"%b%08x" % (self._begin, next(self._numbers))
