"""scales: the declared scales of rated aspects"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE rating_scale (
            dataset_id BIGINT NOT NULL,
            aspect TEXT NOT NULL,
            scale TEXT NOT NULL,
            least DOUBLE PRECISION,
            most DOUBLE PRECISION,
            lowest_is_best BOOLEAN NOT NULL,
            CONSTRAINT pk_rating_scale PRIMARY KEY (dataset_id, aspect),
            CONSTRAINT fk_rating_scale_dataset_id FOREIGN KEY(dataset_id)
                REFERENCES dataset (dataset_id) ON DELETE CASCADE
        )
    """)
