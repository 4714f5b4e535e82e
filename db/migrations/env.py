"""Alembic's entry: runs migrations on the connection that db.schema.migrate hands over."""

from __future__ import annotations

from alembic import context

from db.schema import METADATA

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=METADATA, compare_type=True)
with context.begin_transaction():
    context.run_migrations()
