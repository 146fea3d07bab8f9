"""Control planes as each tells of itself, and a number that grows with each write of a leader."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
older_releases_run_on = True


def upgrade() -> None:
    """Make both tables; the second holds one row."""
    op.create_table(
        "control_planes", sa.Column("id", sa.String, primary_key=True), sa.Column("body", sa.Text, nullable=False)
    )
    table = op.create_table(
        "fleet_version",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(table, [{"id": 1, "version": 0}])
