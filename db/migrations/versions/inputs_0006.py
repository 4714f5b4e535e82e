"""inputs: digests kept when they are written, one table of models, and what scores were before"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Locked first, so that the digests are made of what all earlier writers have committed.
REFERENCE_DIGESTS = """
CREATE FUNCTION refresh_reference_digests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM video WHERE video_id IN (SELECT video_id FROM touched) ORDER BY video_id FOR NO KEY UPDATE;
    UPDATE video v
    SET references_sha256 = made.texts, reference_segments_digest = made.segments
    FROM (SELECT t.video_id,
                 sha256(string_agg(sha256(convert_to(r.key, 'UTF8')) || r.text_sha256, '' ORDER BY r.key COLLATE "C"))
                     AS texts,
                 string_agg(sha256(convert_to(r.key, 'UTF8'))
                                || sha256(convert_to(COALESCE(CAST(r.segments AS text), ''), 'UTF8')),
                            '' ORDER BY r.key COLLATE "C") AS segments
          FROM (SELECT DISTINCT video_id FROM touched) t
          LEFT JOIN reference r USING (video_id)
          GROUP BY t.video_id) made
    WHERE v.video_id = made.video_id
      AND (v.references_sha256, v.reference_segments_digest) IS DISTINCT FROM (made.texts, made.segments);
    RETURN NULL;
END $$
"""
KEYPOINT_DIGESTS = """
CREATE FUNCTION refresh_keypoint_digests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM video WHERE video_id IN (SELECT video_id FROM touched) ORDER BY video_id FOR NO KEY UPDATE;
    UPDATE video v
    SET keypoints_sha256 = made.keypoints
    FROM (SELECT t.video_id,
                 sha256(string_agg(sha256(convert_to(k.key, 'UTF8')) || sha256(convert_to(k.dimension, 'UTF8'))
                                       || sha256(convert_to(k.text, 'UTF8'))
                                       || sha256(convert_to(COALESCE(CAST(k.segment_index AS text), ''), 'UTF8')),
                                   '' ORDER BY k.key COLLATE "C")) AS keypoints
          FROM (SELECT DISTINCT video_id FROM touched) t
          LEFT JOIN keypoint k USING (video_id)
          GROUP BY t.video_id) made
    WHERE v.video_id = made.video_id
      AND v.keypoints_sha256 IS DISTINCT FROM made.keypoints;
    RETURN NULL;
END $$
"""
KEEP_PAST_SCORE = """
CREATE FUNCTION keep_past_score() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    changed text;
BEGIN
    SELECT string_agg(n.key, ', ' ORDER BY n.key) INTO changed
    FROM jsonb_each_text(NEW.input_marks) n
    WHERE OLD.input_marks <> '{}' AND n.value IS DISTINCT FROM OLD.input_marks->>n.key;
    INSERT INTO past_score (scorer_id, sample_id, input_sha256, value, components, status, error, run_id, scored_at,
                            reason)
    VALUES (OLD.scorer_id, OLD.sample_id, OLD.input_sha256, OLD.value, OLD.components, OLD.status, OLD.error,
            OLD.run_id, OLD.scored_at,
            CASE WHEN changed IS NOT NULL THEN changed
                 WHEN OLD.input_sha256 NOT IN (NEW.input_sha256, '') THEN 'inputs'
                 WHEN OLD.status = 'failed' THEN 'tried again'
                 ELSE 'rule'
            END);
    RETURN NULL;
END $$
"""
SEVERAL_REFERENCES = "CAST(c.components->>'n_references' AS integer) > 1"
TOUCHED = {
    "inserted": ("INSERT", "NEW"),
    "deleted": ("DELETE", "OLD"),
    "moved_away": ("UPDATE", "OLD"),
    "updated": ("UPDATE", "NEW"),
}
DIGESTED = {"reference": "refresh_reference_digests", "keypoint": "refresh_keypoint_digests"}
# Tables with a column named after the table of their models.
RENAMED = {
    "text_embedding": "encoder",
    "frame_set": "encoder",
    "frame_embedding": "encoder",
    "entailment": "verifier",
}


def upgrade() -> None:
    _one_table_of_models()
    _digests()
    _scored_again_by_another_rule()
    _history()
    _statuses_in_place_of_misleading_numbers()
    op.create_table(
        "view_definition",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sql_sha256", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_view_definition")),
    )


def downgrade() -> None:
    op.drop_table("view_definition")
    op.execute("DROP TRIGGER keep_past_score ON score")
    op.execute("DROP FUNCTION keep_past_score")
    op.drop_table("past_score")
    op.drop_column("score", "input_marks")
    for table, function in DIGESTED.items():
        for name in TOUCHED:
            op.execute(f"DROP TRIGGER {table}_{name} ON {table}")
        op.execute(f"DROP FUNCTION {function}")
    for column in ("references_sha256", "reference_segments_digest", "keypoints_sha256"):
        op.drop_column("video", column)
    _two_tables_of_models()


def _one_table_of_models() -> None:
    op.rename_table("encoder", "model")
    op.alter_column("model", "model_id", new_column_name="name")
    op.alter_column("model", "encoder_id", new_column_name="model_id")
    op.drop_column("model", "dim")
    op.execute("ALTER TABLE model RENAME CONSTRAINT pk_encoder TO pk_model")
    op.execute("ALTER TABLE model RENAME CONSTRAINT uq_encoder_fingerprint TO uq_model_fingerprint")
    op.execute(
        "INSERT INTO model (fingerprint, name, revision, params, created_at) "
        "SELECT fingerprint, model_id, revision, params, created_at FROM verifier ON CONFLICT DO NOTHING"
    )
    op.drop_constraint("fk_entailment_verifier_id", "entailment", type_="foreignkey")
    op.execute(
        # Negative first: the ids of both tables overlap.
        "UPDATE entailment e SET verifier_id = -m.model_id FROM verifier f JOIN model m USING (fingerprint) "
        "WHERE e.verifier_id = f.verifier_id"
    )
    op.execute("UPDATE entailment SET verifier_id = -verifier_id")
    for table, former in RENAMED.items():
        op.alter_column(table, f"{former}_id", new_column_name="model_id")
        if former == "encoder":
            op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT fk_{table}_encoder_id TO fk_{table}_model_id")
    op.create_foreign_key(
        op.f("fk_entailment_model_id"), "entailment", "model", ["model_id"], ["model_id"], ondelete="CASCADE"
    )
    op.drop_table("verifier")


def _digests() -> None:
    for column in ("references_sha256", "reference_segments_digest", "keypoints_sha256"):
        op.add_column("video", sa.Column(column, sa.LargeBinary(), nullable=True))
    op.execute(REFERENCE_DIGESTS)
    op.execute(KEYPOINT_DIGESTS)
    for table, function in DIGESTED.items():
        for name, (event, side) in TOUCHED.items():
            op.execute(
                f"CREATE TRIGGER {table}_{name} AFTER {event} ON {table} REFERENCING {side} TABLE AS touched "
                f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
            )
        # Digests of what is there already: the trigger sees every row as touched.
        op.execute(f"UPDATE {table} SET video_id = video_id")


def _history() -> None:
    op.add_column(
        "score",
        sa.Column(
            "input_marks",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default="{}",
            nullable=False,
        ),
    )
    op.create_table(
        "past_score",
        sa.Column("past_score_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("scorer_id", sa.BigInteger(), nullable=False),
        sa.Column("sample_id", sa.BigInteger(), nullable=False),
        sa.Column("input_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("components", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("scored_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("replaced_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["sample.sample_id"], name=op.f("fk_past_score_sample_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scorer_id"], ["scorer.scorer_id"], name=op.f("fk_past_score_scorer_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("past_score_id", name=op.f("pk_past_score")),
    )
    op.create_index("ix_past_score_sample_id", "past_score", ["sample_id"], unique=False)
    op.create_index("ix_past_score_scorer_id", "past_score", ["scorer_id"], unique=False)
    op.execute(KEEP_PAST_SCORE)
    op.execute(
        "CREATE TRIGGER keep_past_score AFTER UPDATE ON score FOR EACH ROW "
        "WHEN ((OLD.input_sha256, OLD.value, OLD.status) IS DISTINCT FROM (NEW.input_sha256, NEW.value, NEW.status)) "
        "EXECUTE FUNCTION keep_past_score()"
    )


def _scored_again_by_another_rule() -> None:
    """Empty the digest of scores that are to be made anew although their inputs did not change.

    Those are captions whose best reference forces 0, where another one may have a shape that can score; and
    question-answer pairs, whose two texts are digested apart from now on. Before the trigger is there: such a score
    becomes history when it is made anew, and once.
    """
    op.execute("UPDATE score c SET input_sha256 = '' FROM sample s WHERE s.sample_id = c.sample_id AND s.kind = 'qa'")
    op.execute(
        "UPDATE score c SET input_sha256 = '' FROM scorer r WHERE r.scorer_id = c.scorer_id "
        "AND r.metric IN ('vcs', 'vcs_short') AND c.status = 'ok' "
        f"AND CAST(c.components->>'always_zero' AS boolean) AND {SEVERAL_REFERENCES}"
    )


def _statuses_in_place_of_misleading_numbers() -> None:
    """What the scorers say from now on of such samples, without scoring again; past_score keeps the numbers."""
    op.execute(
        "UPDATE score c SET value = NULL, status = 'too_short', error = 'texts of this shape score 0 whatever they "
        "say: use vcs_short, or set REELSIEVE_VCS_SHORT_TEXT=true' "
        "FROM scorer r WHERE r.scorer_id = c.scorer_id AND r.metric = 'vcs' AND c.status = 'ok' "
        f"AND CAST(c.components->>'always_zero' AS boolean) AND NOT {SEVERAL_REFERENCES}"
    )
    op.execute(
        "UPDATE score c SET value = NULL, status = 'too_short', error = 'texts of this shape score 0 whatever they "
        "say: set REELSIEVE_VCS_SHORT_TEXT=true' "
        "FROM scorer r WHERE r.scorer_id = c.scorer_id AND r.metric = 'vcs_short' AND c.status = 'ok' "
        f"AND CAST(c.components->>'always_zero' AS boolean) AND NOT {SEVERAL_REFERENCES}"
    )
    op.execute(
        "UPDATE score c SET value = NULL, status = 'no_model', error = 'the demo encoder knows the clips of the demo "
        "alone: set REELSIEVE_IMAGE_TEXT_ENCODER and REELSIEVE_IMAGE_TEXT_CHECKPOINT to a real encoder' "
        "FROM scorer r, sample s JOIN dataset d USING (dataset_id) "
        "WHERE r.scorer_id = c.scorer_id AND s.sample_id = c.sample_id AND d.name <> 'demo' "
        "AND c.status NOT IN ('no_frames', 'failed', 'not_applicable') "
        "AND r.models->'image_text_encoder'->>'model_id' = 'demo encoder'"
    )


def _two_tables_of_models() -> None:
    op.create_table(
        "verifier",
        sa.Column("verifier_id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("params", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("verifier_id", name=op.f("pk_verifier")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_verifier_fingerprint")),
    )
    op.execute(
        "INSERT INTO verifier (verifier_id, fingerprint, model_id, revision, params, created_at) "
        "SELECT model_id, fingerprint, name, revision, params, created_at FROM model "
        "WHERE model_id IN (SELECT model_id FROM entailment)"
    )
    op.execute(
        "SELECT setval(pg_get_serial_sequence('verifier', 'verifier_id'), "
        "(SELECT COALESCE(max(verifier_id), 0) + 1 FROM verifier), false)"
    )
    op.drop_constraint("fk_entailment_model_id", "entailment", type_="foreignkey")
    for table, former in RENAMED.items():
        op.alter_column(table, "model_id", new_column_name=f"{former}_id")
        if former == "encoder":
            op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT fk_{table}_model_id TO fk_{table}_encoder_id")
    op.create_foreign_key(
        op.f("fk_entailment_verifier_id"),
        "entailment",
        "verifier",
        ["verifier_id"],
        ["verifier_id"],
        ondelete="CASCADE",
    )
    op.execute("ALTER TABLE model RENAME CONSTRAINT pk_model TO pk_encoder")
    op.execute("ALTER TABLE model RENAME CONSTRAINT uq_model_fingerprint TO uq_encoder_fingerprint")
    op.rename_table("model", "encoder")
    op.alter_column("encoder", "model_id", new_column_name="encoder_id")
    op.alter_column("encoder", "name", new_column_name="model_id")
    # Nobody but a text or frame vector knows it.
    op.add_column("encoder", sa.Column("dim", sa.Integer(), nullable=False, server_default="1"))
    for table in ("text_embedding", "frame_embedding"):
        op.execute(
            f"UPDATE encoder e SET dim = v.dim FROM (SELECT DISTINCT ON (encoder_id) encoder_id, "
            f"vector_dims(embedding) AS dim FROM {table}) v WHERE v.encoder_id = e.encoder_id"
        )
    op.alter_column("encoder", "dim", server_default=None)
