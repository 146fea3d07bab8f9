"""Names and secrets the control plane makes: ids of replicas and holders, keys, tokens and their hashes."""

import hashlib
import hmac
import secrets
import string
from enum import StrEnum

_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_ALPHANUMERIC = string.ascii_letters + string.digits
_PUBLIC_LENGTH = 11
_SECRET_LENGTH = 32
"""Characters after the public prefix: 190 bits, far beyond guessing."""


class SecretKind(StrEnum):
    """What a secret opens; also its first two letters."""

    API_KEY = "lk"
    ADMIN_TOKEN = "lt"  # noqa: S105 - the prefix of tokens, not a token
    ENGINE_KEY = "le"
    JOIN_TOKEN = "lj"  # noqa: S105 - the prefix of tokens, not a token


def new_replica_id() -> str:
    """Give a new replica id: `r` and ten base32 characters. Never reused: 50 random bits."""
    return "r" + _random(_BASE32, 10)


def new_holder_id() -> str:
    """Give a new lease holder id, unique per process start, so that a restarted process is another holder."""
    return "h" + _random(_BASE32, 20)


def new_secret(kind: SecretKind) -> str:
    """Make a secret: `lk_XXXXXXXX` (public, see `public_id`) and 32 characters that only its owner knows."""
    return f"{kind}_{_random(_ALPHANUMERIC, 8)}{_random(_ALPHANUMERIC, _SECRET_LENGTH)}"


def public_id(secret: str) -> str:
    """Give the part of a secret that is safe to log and to look it up by: its first 11 characters."""
    return secret[:_PUBLIC_LENGTH]


def new_hash_key() -> bytes:
    """Make the cluster's key for keyed hashes."""
    return secrets.token_bytes(32)


def hash_secret(hash_key: bytes, secret: str) -> str:
    """Hash a secret for the store: HMAC-SHA256 under the cluster's key, hex."""
    return hmac.new(hash_key, secret.encode(), hashlib.sha256).hexdigest()


def new_agent_token() -> str:
    """Make the token that agents present to control planes of this cluster."""
    return secrets.token_urlsafe(32)


def same_secret(given: str, expected: str) -> bool:
    """Compare two secrets in a time that tells nothing about where they differ."""
    return hmac.compare_digest(given.encode(), expected.encode())


def _random(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))
