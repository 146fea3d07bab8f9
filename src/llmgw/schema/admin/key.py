"""Client keys as operators see them: never the hash, the secret only once."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from llmgw.schema.value import Value

MAX_NAME = 100
PROJECT_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"

# Only described here: the services check, and say more than "does not match" when they refuse.
_Name = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_NAME})]
_Project = Annotated[str, Meta(extra_json_schema={"pattern": f"^{PROJECT_PATTERN}$"})]


class CreateKey(Value, frozen=True, kw_only=True):
    """`POST /api/v1/keys`."""

    name: _Name
    """Printable characters."""
    project: _Project = "default"


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
