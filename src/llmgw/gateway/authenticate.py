"""Who asks: a client's key against the keyed hashes of the view."""

import hmac
from typing import Protocol

from llmgw.gateway.errors import invalid_key, keys_unknown
from llmgw.schema.view import KeyEntry, KeysSection

_SCHEME = b"bearer "


class WithHeaders(Protocol):
    """The part of a request that is looked at."""

    def header(self, name: bytes) -> bytes | None:
        """Give the first value of a header by its lower-case name."""


class Authenticator:
    """Knows the keys of the last view. `open_to_all` lets everybody in (a gateway that runs alone without a key)."""

    def __init__(self, *, open_to_all: bool = False) -> None:
        self._open = open_to_all
        self._hash_key: bytes | None = None
        self._entries: dict[str, KeyEntry] = {}
        self._known: dict[bytes, KeyEntry] = {}
        """Secrets found valid since the last update: hashing one costs as much as parsing a request."""

    def update(self, section: KeysSection) -> None:
        """Take over a keys section, whole."""
        self._hash_key = bytes.fromhex(section.hash_key)
        self._entries = {entry.hash: entry for entry in section.keys}
        self._known.clear()

    def check(self, request: WithHeaders) -> KeyEntry | None:
        """Give the key's entry, or `None` when everybody is let in. Raises `ApiError` 401 or 503."""
        if self._open:
            return None
        if self._hash_key is None:
            raise keys_unknown()
        secret = _secret(request)
        if secret is None:
            raise invalid_key(
                "no API key was sent: put it into the header 'authorization: Bearer KEY' or 'x-api-key: KEY'"
            )
        known = self._known.get(secret)
        if known is not None:
            return known
        # A lookup by keyed hash needs no constant-time comparison: without the cluster's key nobody can aim at a hash.
        entry = self._entries.get(hash_of(self._hash_key, secret))
        if entry is None:
            raise invalid_key("the API key is not valid here: check that it was copied whole and was not revoked")
        self._known[secret] = entry
        return entry


def hash_of(hash_key: bytes, secret: bytes) -> str:
    """Give a secret's keyed hash, as key entries hold it."""
    return hmac.digest(hash_key, secret, "sha256").hex()


def _secret(request: WithHeaders) -> bytes | None:
    value = request.header(b"authorization")
    if value is not None and value[: len(_SCHEME)].lower() == _SCHEME:
        return value[len(_SCHEME) :].strip()
    return request.header(b"x-api-key")
