"""Client keys as operators see them: never the hash, the secret only once."""

from datetime import datetime

from llmgw.schema.value import Value


class CreateKey(Value, frozen=True, kw_only=True):
    """`POST /api/v1/keys`."""

    name: str
    project: str = "default"


class KeyRow(Value, frozen=True, kw_only=True):
    """One key."""

    id: str
    name: str
    project: str
    created_at: datetime
    revoked_at: datetime | None = None


class CreatedKey(Value, frozen=True, kw_only=True):
    """A new key with its secret, which is not shown again."""

    key: KeyRow
    secret: str


class KeyList(Value, frozen=True, kw_only=True):
    """`GET /api/v1/keys`, revoked ones included."""

    keys: tuple[KeyRow, ...]
