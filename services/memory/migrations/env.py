"""Run by Alembic: migrates over the connection that ``spade_rl.memory.database`` hands over."""

from __future__ import annotations

from alembic import context

from spade_rl.memory.schema import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table=context.config.attributes["version_table"],
)
with context.begin_transaction():
    context.run_migrations()
