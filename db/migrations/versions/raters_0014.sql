-- Answers to attention checks while people rate.

CREATE TABLE attention_check (
    sample_id BIGINT NOT NULL,
    rater TEXT NOT NULL,
    aspect TEXT NOT NULL,
    is_comparison BOOLEAN NOT NULL,
    planted_id BIGINT NOT NULL,
    planted_sha256 BYTEA NOT NULL,
    value DOUBLE PRECISION NOT NULL,
    has_passed BOOLEAN NOT NULL,
    extra JSONB,
    CONSTRAINT pk_attention_check PRIMARY KEY (sample_id, rater, aspect, is_comparison, planted_id),
    CONSTRAINT fk_attention_check_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE,
    CONSTRAINT fk_attention_check_planted_id FOREIGN KEY(planted_id) REFERENCES sample (sample_id) ON DELETE CASCADE
);

CREATE INDEX ix_attention_check_planted_id ON attention_check (planted_id);
