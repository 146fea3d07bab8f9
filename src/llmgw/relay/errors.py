"""What can go wrong between a client, the relay and an upstream.

RelayError
├── ClientGone              the client left, or stopped reading its answer
└── UpstreamError
    ├── UpstreamUnreachable no connection: nothing was sent, safe to try elsewhere
    ├── UpstreamBroken      the connection broke or spoke no HTTP; `answer_bytes` of the body were seen
    ├── UpstreamTimeout     silent for longer than allowed
    └── AnswerTooLarge      more body than the caller is willing to hold
"""


class RelayError(Exception):
    """Base of all errors the relay raises towards a handler."""


class ClientGone(RelayError):
    """The client left before its answer was complete, or did not read it for the idle timeout."""


class UpstreamError(RelayError):
    """The upstream did not give a whole answer. The text names the endpoint and what happened, never a header."""


class UpstreamUnreachable(UpstreamError):
    """No connection could be made, so nothing was sent."""


class UpstreamBroken(UpstreamError):
    """The connection ended, or what came was not HTTP, before the answer was complete."""

    def __init__(self, message: str, *, answer_bytes: int) -> None:
        super().__init__(message)
        self.answer_bytes = answer_bytes
        """Bytes of the answer's body seen before; 0 includes the case that only its head came."""


class UpstreamTimeout(UpstreamError):
    """No first byte, or no further byte, within the time allowed; the connection is closed."""


class AnswerTooLarge(UpstreamError):
    """The body is longer than the limit given to `read`; the connection is closed."""
