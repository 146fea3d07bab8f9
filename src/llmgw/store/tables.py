"""The tables. Values are kept whole as JSON next to their id: they are always read and written whole.

Migrations state the same schema on their own; a test compares the two.
"""

from sqlalchemy import BigInteger, Boolean, Column, Integer, MetaData, String, Table, Text

metadata = MetaData()


def _values(name: str) -> Table:
    return Table(name, metadata, Column("id", String, primary_key=True), Column("body", Text, nullable=False))


nodes = _values("nodes")
models = _values("models")
model_statuses = _values("model_statuses")
replicas = _values("replicas")
api_keys = _values("api_keys")
admin_tokens = _values("admin_tokens")
control_planes = _values("control_planes")
join_tokens = _values("join_tokens")
enrolments = _values("enrolments")
policies = _values("policies")
aliases = _values("aliases")
settings = Table("settings", metadata, Column("id", String, primary_key=True), Column("value", String, nullable=False))
events = Table(
    "events",
    metadata,
    # SQLite gives numbers by itself only to a column of this very type.
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("body", Text, nullable=False),
)
lease = Table(
    "lease",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("holder", String, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("released", Boolean, nullable=False),
    Column("name", String, nullable=False),
    Column("address", String, nullable=False),
    Column("renewed_at", String, nullable=False),
)
"""One row, with id 1. `renewed_at` is RFC 3339 text for people: no decision compares it with a clock."""

fleet_version = Table(
    "fleet_version",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),
)
"""One row, with id 1: grows with each write of a leader, so that a standby need not read tables that are as before."""

UNFENCED = frozenset({control_planes})
"""Tables that any control plane may write, whoever leads: what each says of itself."""
