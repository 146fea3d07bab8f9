"""Keys of clients and tokens of operators. Only keyed hashes are stored; the secret is shown once."""

from datetime import datetime
from enum import StrEnum

from llmgw.schema.value import Value


class AdminRole(StrEnum):
    """What an admin token may do; each includes the ones before it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"


class ApiKey(Value, frozen=True, kw_only=True):
    """A client's key for `/v1`."""

    id: str
    """Public prefix of the secret (`lk_` + 8 characters): safe to log."""
    hash: str
    """HMAC-SHA256 of the whole secret under the cluster's hash key, hex."""
    name: str
    project: str = "default"
    created_at: datetime
    revoked_at: datetime | None = None


class AdminToken(Value, frozen=True, kw_only=True):
    """An operator's token for the admin API and the console."""

    id: str
    """Public prefix of the secret (`lt_` + 8 characters)."""
    hash: str
    name: str
    role: AdminRole
    created_at: datetime
    revoked_at: datetime | None = None
