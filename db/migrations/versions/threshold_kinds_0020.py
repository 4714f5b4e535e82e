"""threshold kinds: a cut on scores is one of captions, or one of question-answer pairs"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_TABLE, _UNIQUE = "score_threshold", "uq_score_threshold_scope"
_SCOPE = ("scorer_id", "dataset_id", "scope", "shard")
# The kind of a dataset's samples, where all are of one.
_ONLY_KIND = (
    "UPDATE score_threshold t SET kind = found.kind FROM (SELECT dataset_id, min(kind) AS kind FROM sample GROUP BY 1 "
    "HAVING count(DISTINCT kind) = 1) found WHERE found.dataset_id = t.dataset_id"
)
# Else that of the samples that have a value of the scorer.
_ONLY_KIND_SCORED = (
    "UPDATE score_threshold t SET kind = found.kind FROM (SELECT c.scorer_id, s.dataset_id, min(s.kind) AS kind "
    "FROM score c JOIN sample s USING (sample_id) WHERE c.value IS NOT NULL GROUP BY 1, 2 "
    "HAVING count(DISTINCT s.kind) = 1) found "
    "WHERE found.scorer_id = t.scorer_id AND found.dataset_id = t.dataset_id AND t.kind IS NULL"
)


def upgrade() -> None:
    op.add_column(_TABLE, sa.Column("kind", sa.Text(), nullable=True))
    op.execute(_ONLY_KIND)
    op.execute(_ONLY_KIND_SCORED)
    # A cut over both kinds is a cut on nothing; the next run of the asset makes one of each.
    op.execute("DELETE FROM score_threshold WHERE kind IS NULL")
    op.alter_column(_TABLE, "kind", nullable=False)
    op.create_check_constraint(op.f("ck_score_threshold_kind"), _TABLE, "kind IN ('caption', 'qa')")
    op.drop_constraint(_UNIQUE, _TABLE)
    columns = [*_SCOPE, "kind", "method", "objective"]
    op.create_unique_constraint(_UNIQUE, _TABLE, columns, postgresql_nulls_not_distinct=True)


def downgrade() -> None:
    op.drop_constraint(_UNIQUE, _TABLE)
    op.execute("DELETE FROM score_threshold WHERE kind = 'qa'")
    op.drop_constraint(op.f("ck_score_threshold_kind"), _TABLE)
    op.drop_column(_TABLE, "kind")
    columns = [*_SCOPE, "method", "objective"]
    op.create_unique_constraint(_UNIQUE, _TABLE, columns, postgresql_nulls_not_distinct=True)
