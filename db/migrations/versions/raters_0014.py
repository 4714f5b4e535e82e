"""raters: answers to attention checks and wrong words of captions"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE attention_check (
            sample_id BIGINT NOT NULL CONSTRAINT fk_attention_check_sample_id REFERENCES sample ON DELETE CASCADE,
            rater TEXT NOT NULL,
            aspect TEXT NOT NULL,
            is_comparison BOOLEAN NOT NULL,
            planted_id BIGINT NOT NULL CONSTRAINT fk_attention_check_planted_id REFERENCES sample ON DELETE CASCADE,
            planted_sha256 BYTEA NOT NULL,
            value DOUBLE PRECISION NOT NULL,
            has_passed BOOLEAN NOT NULL,
            extra JSONB,
            CONSTRAINT pk_attention_check PRIMARY KEY (sample_id, rater, aspect, is_comparison, planted_id)
        )
    """)
    op.execute("""
        CREATE TABLE wrong_span (
            sample_id BIGINT NOT NULL CONSTRAINT fk_wrong_span_sample_id REFERENCES sample ON DELETE CASCADE,
            rater TEXT NOT NULL,
            text_sha256 BYTEA NOT NULL,
            start_at INTEGER NOT NULL,
            end_at INTEGER NOT NULL,
            words TEXT NOT NULL,
            is_planted BOOLEAN NOT NULL,
            marked_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
            CONSTRAINT pk_wrong_span PRIMARY KEY (sample_id, rater, text_sha256, start_at, end_at),
            CONSTRAINT ck_wrong_span_order CHECK (0 <= start_at AND start_at < end_at)
        )
    """)
    op.execute("CREATE INDEX ix_attention_check_planted_id ON attention_check (planted_id)")
