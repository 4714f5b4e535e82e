"""frozen rows: a selection keeps them as columns in place of JSON, and the key of scores holds the values"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TEXTS = {name: f"row->>'{name}'" for name in ("sample", "video", "kind", "system", "text", "question", "answer", "uri")}
REQUIRED = ("sample", "video", "kind", "system", "text", "scores", "is_scored")
# The names of the metrics are those for which a row tells the models; all rows of a selection have the same names.
DESCRIBE = """
UPDATE selection c
SET metrics = found.metrics,
    models = found.models
FROM (SELECT selection_id,
             COALESCE(array_agg(metric ORDER BY metric) FILTER (WHERE metric IS NOT NULL), '{}') AS metrics,
             COALESCE(array_agg(models ORDER BY metric) FILTER (WHERE metric IS NOT NULL), '{}') AS models
      FROM (SELECT c.selection_id, left(field.name, -7) AS metric, max(field.value) AS models
            FROM selection c
            LEFT JOIN selection_item i USING (selection_id)
            LEFT JOIN LATERAL jsonb_each_text(i.row) field (name, value) ON right(field.name, 7) = '_models'
            GROUP BY c.selection_id, left(field.name, -7)) of_metric
      GROUP BY selection_id) found
WHERE found.selection_id = c.selection_id
"""
TO_COLUMNS = f"""
UPDATE selection_item i
SET {", ".join(f"{name} = {value}" for name, value in TEXTS.items())},
    content_sha256 = decode(row->>'content_sha256', 'hex'),
    scores = ARRAY(SELECT CAST(row->>metric AS double precision)
                   FROM unnest(c.metrics) WITH ORDINALITY m (metric, place) ORDER BY place),
    is_scored = ARRAY(SELECT row->>(metric || '_models') IS NOT NULL
                      FROM unnest(c.metrics) WITH ORDINALITY m (metric, place) ORDER BY place)
FROM selection c
WHERE c.selection_id = i.selection_id
"""
TO_ROW = f"""
UPDATE selection_item i
SET row = jsonb_build_object('dataset', d.name, {", ".join(f"'{name}', i.{name}" for name in TEXTS)},
                             'content_sha256', encode(content_sha256, 'hex'))
          || COALESCE((SELECT jsonb_object_agg(metric, scores[place])
                           || jsonb_object_agg(metric || '_models', CASE WHEN is_scored[place] THEN c.models[place] END)
                       FROM unnest(c.metrics) WITH ORDINALITY m (metric, place)), '{{}}')
FROM selection c
JOIN dataset d USING (dataset_id)
WHERE c.selection_id = i.selection_id
"""


# In place of a foreign key, which is checked for each row.
FORGET_ITEMS = """
CREATE FUNCTION forget_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM selection_item WHERE selection_id IN (SELECT selection_id FROM gone);
    RETURN NULL;
END $$
"""
FORGET_ALL_ITEMS = """
CREATE FUNCTION forget_all_items() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM selection_item;
    RETURN NULL;
END $$
"""


def upgrade() -> None:
    op.drop_constraint("fk_selection_item_selection_id", "selection_item")
    op.execute(FORGET_ITEMS)
    op.execute(
        "CREATE TRIGGER selection_forgets_deleted AFTER DELETE ON selection REFERENCING OLD TABLE AS gone "
        "FOR EACH STATEMENT EXECUTE FUNCTION forget_items()"
    )
    op.execute(FORGET_ALL_ITEMS)
    op.execute(
        "CREATE TRIGGER selection_forgets_truncated AFTER TRUNCATE ON selection "
        "FOR EACH STATEMENT EXECUTE FUNCTION forget_all_items()"
    )
    op.execute("ALTER TABLE score DROP CONSTRAINT pk_score")
    op.execute("ALTER TABLE score ADD CONSTRAINT pk_score PRIMARY KEY (scorer_id, sample_id) INCLUDE (value)")
    for name in ("metrics", "models"):
        op.add_column("selection", sa.Column(name, sa.ARRAY(sa.Text()), nullable=True))
    for name in TEXTS:
        op.add_column("selection_item", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("selection_item", sa.Column("content_sha256", sa.LargeBinary(), nullable=True))
    op.add_column("selection_item", sa.Column("scores", sa.ARRAY(sa.Double()), nullable=True))
    op.add_column("selection_item", sa.Column("is_scored", sa.ARRAY(sa.Boolean()), nullable=True))
    op.execute(DESCRIBE)
    op.execute(TO_COLUMNS)
    for name in ("metrics", "models"):
        op.alter_column("selection", name, nullable=False)
    for name in REQUIRED:
        op.alter_column("selection_item", name, nullable=False)
    op.drop_column("selection_item", "row")


def downgrade() -> None:
    for name, function in (("deleted", "forget_items"), ("truncated", "forget_all_items")):
        op.execute(f"DROP TRIGGER selection_forgets_{name} ON selection")
        op.execute(f"DROP FUNCTION {function}")
    op.create_foreign_key(
        op.f("fk_selection_item_selection_id"),
        "selection_item",
        "selection",
        ["selection_id"],
        ["selection_id"],
        ondelete="CASCADE",
    )
    op.execute("ALTER TABLE score DROP CONSTRAINT pk_score")
    op.execute("ALTER TABLE score ADD CONSTRAINT pk_score PRIMARY KEY (scorer_id, sample_id)")
    row = sa.dialects.postgresql.JSONB(none_as_null=True)
    op.add_column("selection_item", sa.Column("row", row, nullable=True))
    op.execute(TO_ROW)
    op.alter_column("selection_item", "row", nullable=False)
    for name in (*TEXTS, "content_sha256", "scores", "is_scored"):
        op.drop_column("selection_item", name)
    for name in ("metrics", "models"):
        op.drop_column("selection", name)
