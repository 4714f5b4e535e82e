"""first: all functions, tables and triggers of version 0.1.0, in first_0001.sql

Frozen: a later change of a table or function is a migration of its own, made by `alembic revision` or by hand.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.get_bind().exec_driver_sql(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
