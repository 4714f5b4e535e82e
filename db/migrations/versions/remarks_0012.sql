-- Tags and notes that people write on samples, and saved views of a dataset's pages.

CREATE TABLE remark (
    sample_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    made_by TEXT NOT NULL,
    made_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    dataset_id BIGINT NOT NULL,
    CONSTRAINT pk_remark PRIMARY KEY (sample_id, kind, text),
    CONSTRAINT ck_remark_kind CHECK (kind IN ('tag', 'note')),
    CONSTRAINT fk_remark_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE,
    CONSTRAINT fk_remark_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE
);

CREATE INDEX ix_remark_dataset_id_kind_text ON remark (dataset_id, kind, text);

CREATE TABLE saved_view (
    dataset_id BIGINT NOT NULL,
    name TEXT NOT NULL,
    query TEXT NOT NULL,
    saved_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_saved_view PRIMARY KEY (dataset_id, name),
    CONSTRAINT fk_saved_view_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE
);
