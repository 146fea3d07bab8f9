"""One request of a client, whole."""


class Request:
    """A request with its body read. Only well-formed requests get here; trailers are dropped."""

    __slots__ = ("body", "headers", "keep_alive", "method", "path", "query", "version")

    def __init__(
        self,
        *,
        method: str,
        path: str,
        query: str,
        headers: list[tuple[bytes, bytes]],
        body: bytes = b"",
        version: str = "1.1",
        keep_alive: bool = True,
    ) -> None:
        self.method = method
        """As sent: methods are case-sensitive."""
        self.path = path
        """Starts with `/` (or is `*`); percent-encoding is left as it came."""
        self.query = query
        """What follows the first `?`, without it; empty when there is none."""
        self.headers = headers
        """Names in lower case, in order, repetitions kept; values without surrounding blanks."""
        self.body = body
        """De-chunked."""
        self.version = version
        """`1.1` or `1.0`."""
        self.keep_alive = keep_alive
        """The client is willing to use the connection again."""

    def header(self, name: bytes) -> bytes | None:
        """Give the first value of a header by its lower-case name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None
