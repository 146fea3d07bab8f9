"""Join tokens, and the machines that joined."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
older_releases_run_on = True


def upgrade() -> None:
    """Make both tables."""
    for name in ("join_tokens", "enrolments"):
        op.create_table(name, sa.Column("id", sa.String, primary_key=True), sa.Column("body", sa.Text, nullable=False))
