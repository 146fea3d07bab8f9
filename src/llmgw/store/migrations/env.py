"""Run by Alembic for each command. The caller gives the connection and its transaction; there is no alembic.ini."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
