"""outliving: a frozen selection stays when its dataset is dropped, and keeps the dataset's name"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

NAME_SELECTIONS = """
CREATE FUNCTION name_selections() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE selection SET dataset_name = NEW.name WHERE dataset_id = NEW.dataset_id;
    RETURN NULL;
END $$
"""


def upgrade() -> None:
    op.add_column("selection", sa.Column("dataset_name", sa.Text(), nullable=True))
    op.execute("UPDATE selection c SET dataset_name = d.name FROM dataset d WHERE d.dataset_id = c.dataset_id")
    op.alter_column("selection", "dataset_name", nullable=False)
    op.alter_column("selection", "dataset_id", nullable=True)
    _refer("SET NULL")
    op.execute(NAME_SELECTIONS)
    op.execute(
        "CREATE TRIGGER dataset_names_selections AFTER UPDATE OF name ON dataset "
        "FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION name_selections()"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER dataset_names_selections ON dataset")
    op.execute("DROP FUNCTION name_selections")
    # Before this revision a selection went with its dataset.
    op.execute("DELETE FROM selection WHERE dataset_id IS NULL")
    _refer("CASCADE")
    op.alter_column("selection", "dataset_id", nullable=False)
    op.drop_column("selection", "dataset_name")


def _refer(on_delete: str) -> None:
    name = op.f("fk_selection_dataset_id")
    op.drop_constraint(name, "selection")
    op.create_foreign_key(name, "selection", "dataset", ["dataset_id"], ["dataset_id"], ondelete=on_delete)
