"""Headers that end at the next hop."""

_NOT_FORWARDED = frozenset(
    (
        b"connection",
        b"content-length",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
"""Headers that mean one connection only (RFC 9110, 7.6.1), and the length, which the relay settles itself."""


def not_forwarded(connection: bytes = b"") -> frozenset[bytes]:
    """Give the names of headers to leave out, those that a `connection` header's value names included."""
    if connection.lower().strip(b", ") in (b"", b"keep-alive", b"close"):
        return _NOT_FORWARDED
    return _NOT_FORWARDED | {token.strip().lower() for token in connection.split(b",")}
