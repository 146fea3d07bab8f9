"""The first schema: fleet, keys, settings, events, lease."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
older_releases_run_on = True


def upgrade() -> None:
    """Make all tables."""
    for name in ("nodes", "models", "model_statuses", "replicas", "api_keys", "admin_tokens"):
        op.create_table(name, sa.Column("id", sa.String, primary_key=True), sa.Column("body", sa.Text, nullable=False))
    op.create_table(
        "settings", sa.Column("id", sa.String, primary_key=True), sa.Column("value", sa.String, nullable=False)
    )
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "lease",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("holder", sa.String, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("released", sa.Boolean, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("address", sa.String, nullable=False),
        sa.Column("renewed_at", sa.String, nullable=False),
    )
