"""checks: the step at which every student of a trial stopped, by videos that stop its training"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What is stored took 250 steps: it has no curve, and no videos that stopped its training.
    op.execute("ALTER TABLE selection_trial ADD COLUMN n_validation_videos BIGINT NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE selection_trial ALTER COLUMN n_validation_videos DROP DEFAULT")
    op.execute("ALTER TABLE trial_arm ADD COLUMN steps INTEGER, ADD COLUMN curve JSONB NOT NULL DEFAULT '{}'")
    op.execute("ALTER TABLE trial_arm ALTER COLUMN curve DROP DEFAULT")
    op.execute("ALTER TABLE trial_run ADD COLUMN curve JSONB NOT NULL DEFAULT '{}'")
    op.execute("ALTER TABLE trial_run ALTER COLUMN curve DROP DEFAULT")
