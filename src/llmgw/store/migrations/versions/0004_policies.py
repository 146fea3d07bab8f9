"""Policies of the guardrails."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
older_releases_run_on = True


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "policies", sa.Column("id", sa.String, primary_key=True), sa.Column("body", sa.Text, nullable=False)
    )
