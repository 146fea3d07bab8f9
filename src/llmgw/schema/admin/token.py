"""Operators' tokens as operators see them: never the hash, the secret only once."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from llmgw.schema.admin.key import MAX_NAME
from llmgw.schema.key import AdminRole
from llmgw.schema.value import Value

# Only described here: the service checks, and says more than "does not match" when it refuses.
_Name = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": MAX_NAME})]


class CreateToken(Value, frozen=True, kw_only=True):
    """`POST /api/v1/tokens`."""

    name: _Name
    """Printable characters: whose it is, or what for."""
    role: AdminRole
    """What it may do; each role includes the ones before it."""


class TokenRow(Value, frozen=True, kw_only=True):
    """One token."""

    id: str
    name: str
    role: AdminRole
    created_at: datetime
    revoked_at: datetime | None = None


class CreatedToken(Value, frozen=True, kw_only=True):
    """A new token with its secret, which is not shown again."""

    token: TokenRow
    secret: str


class TokenList(Value, frozen=True, kw_only=True):
    """`GET /api/v1/tokens`, revoked ones included."""

    tokens: tuple[TokenRow, ...]
