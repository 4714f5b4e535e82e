"""first: the tables that db/schema declares, between the functions and triggers of first_0001.sql

Before a second migration is written, `python -m db.migrations.versions.first_0001` puts the tables into that file too,
so that later changes of their declarations do not change this migration.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateIndex, CreateTable, DDLElement

from db.schema import METADATA

# Ends with digits of the SHA-256 of `build_sql()`: another draft of these tables is another revision.
revision = "0001_6e7abc00"
down_revision = None
branch_labels = None
depends_on = None

SQL = Path(__file__).with_suffix(".sql")
_TABLES = "-- TABLES\n"


def build_sql() -> str:
    """Return the statements of this migration. Comments are written with the views."""
    tables: list[DDLElement] = []
    for table in METADATA.sorted_tables:
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        tables += [CreateTable(table), *map(CreateIndex, indexes)]
    dialect = make_url("postgresql+psycopg://").get_dialect()()
    made = ";\n\n".join(str(item.compile(dialect=dialect)).strip() for item in tables)
    return SQL.read_text(encoding="utf-8").replace(_TABLES, f"{made};\n")


def upgrade() -> None:
    # Without parameters, so that a percent sign is one.
    op.get_bind().exec_driver_sql(build_sql(), execution_options={"no_parameters": True})
    op.execute("COMMENT ON TABLE alembic_version IS 'The migration that the tables are at.'")
    op.execute("COMMENT ON COLUMN alembic_version.version_num IS 'Number of the migration.'")


if __name__ == "__main__":
    SQL.write_text(build_sql(), encoding="utf-8")
