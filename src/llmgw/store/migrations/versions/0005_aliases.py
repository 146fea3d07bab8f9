"""Aliases of models."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
older_releases_run_on = True


def upgrade() -> None:
    """Make the table."""
    op.create_table("aliases", sa.Column("id", sa.String, primary_key=True), sa.Column("body", sa.Text, nullable=False))
