-- All functions, tables and triggers of version 0.1.0. This file never changes: a later change is a migration of its own.

CREATE FUNCTION utf8(text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN convert_to($1, 'UTF8');

-- Counts of samples and of scores by shard. Who counts a shard again has the lock on its row alone: scores that others
-- write at the same moment are counted either here or by their own transaction.

CREATE FUNCTION count_new_samples() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO shard (dataset_id, shard, n_samples)
    SELECT dataset_id, shard, count(*)
    FROM touched
    GROUP BY dataset_id, shard
    ORDER BY dataset_id, shard
    ON CONFLICT (dataset_id, shard) DO UPDATE SET n_samples = shard.n_samples + EXCLUDED.n_samples;
    RETURN NULL;
END $$;

CREATE FUNCTION count_again(datasets bigint[], shards integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO shard (dataset_id, shard, n_samples)
    SELECT DISTINCT t.dataset_id, t.shard, 0
    FROM unnest(datasets, shards) t (dataset_id, shard)
    JOIN dataset USING (dataset_id)
    ORDER BY t.dataset_id, t.shard
    ON CONFLICT DO NOTHING;
    PERFORM 1
    FROM shard
    WHERE (dataset_id, shard) IN (SELECT * FROM unnest(datasets, shards))
    ORDER BY dataset_id, shard
    FOR UPDATE;
    UPDATE shard h
    SET n_samples = (SELECT count(*) FROM sample s WHERE s.dataset_id = h.dataset_id AND s.shard = h.shard)
    WHERE (dataset_id, shard) IN (SELECT * FROM unnest(datasets, shards));
    DELETE FROM shard_count WHERE (dataset_id, shard) IN (SELECT * FROM unnest(datasets, shards));
    INSERT INTO shard_count (scorer_id, dataset_id, shard, status, n)
    SELECT c.scorer_id, s.dataset_id, s.shard, CASE WHEN c.is_stale THEN 'stale' ELSE c.status END, count(*)
    FROM sample s
    JOIN score c USING (sample_id)
    WHERE (s.dataset_id, s.shard) IN (SELECT * FROM unnest(datasets, shards))
    GROUP BY 1, 2, 3, 4;
END $$;

CREATE FUNCTION count_shards_again() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM count_again(array_agg(dataset_id), array_agg(shard)) FROM (SELECT DISTINCT dataset_id, shard FROM touched) t;
    RETURN NULL;
END $$;

CREATE FUNCTION count_moved_samples() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM count_again(array_agg(place.dataset_id), array_agg(place.shard))
    FROM come
    JOIN gone USING (sample_id)
    CROSS JOIN LATERAL (VALUES (come.dataset_id, come.shard), (gone.dataset_id, gone.shard)) place (dataset_id, shard)
    WHERE (come.dataset_id, come.shard) <> (gone.dataset_id, gone.shard)
    HAVING count(*) > 0;
    RETURN NULL;
END $$;

CREATE FUNCTION count_scores() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO shard_count (scorer_id, dataset_id, shard, status, n)
    SELECT t.scorer_id, s.dataset_id, s.shard, CASE WHEN t.is_stale THEN 'stale' ELSE t.status END,
           count(*) * CAST(TG_ARGV[0] AS bigint)
    FROM touched t
    JOIN sample s USING (sample_id)
    JOIN scorer USING (scorer_id)
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
    ON CONFLICT (scorer_id, dataset_id, shard, status) DO UPDATE SET n = shard_count.n + EXCLUDED.n;
    RETURN NULL;
END $$;

CREATE FUNCTION forget_score_counts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM shard_count;
    RETURN NULL;
END $$;

CREATE FUNCTION forget_sample_counts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM shard;
    RETURN NULL;
END $$;

-- Marks on scores whose inputs changed. Function mark_scores is made with the views, from the metrics' inputs.

CREATE FUNCTION mark_samples() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM mark_scores(ARRAY(SELECT sample_id FROM touched));
    RETURN NULL;
END $$;

CREATE FUNCTION mark_videos() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM mark_scores(
        ARRAY(SELECT sample_id FROM sample WHERE video_id IN (SELECT video_id FROM touched)));
    RETURN NULL;
END $$;

CREATE FUNCTION mark_datasets() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM mark_scores(
        ARRAY(SELECT sample_id FROM sample WHERE dataset_id IN (SELECT dataset_id FROM touched)));
    RETURN NULL;
END $$;

CREATE FUNCTION mark_thresholds() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM mark_scores(
        ARRAY(SELECT sample_id FROM sample WHERE dataset_id IN (SELECT dataset_id FROM touched
                                                                WHERE scope = 'dataset' AND method = 'keypoint_labels')),
        ARRAY(SELECT scorer_id FROM touched));
    RETURN NULL;
END $$;

CREATE FUNCTION mark_all() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM mark_scores(ARRAY(SELECT sample_id FROM sample));
    RETURN NULL;
END $$;

CREATE FUNCTION forget_all_items() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM selection_item;
    RETURN NULL;
END $$;

CREATE FUNCTION forget_all_tables() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM ingested_table;
    RETURN NULL;
END $$;

CREATE FUNCTION forget_items() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM selection_item WHERE selection_id IN (SELECT selection_id FROM gone);
    RETURN NULL;
END $$;

CREATE FUNCTION forget_tables() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM ingested_table WHERE dataset_id IN (SELECT dataset_id FROM touched);
    RETURN NULL;
END $$;

CREATE FUNCTION forget_tables_of_samples() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM ingested_table
    WHERE dataset_id IN (SELECT s.dataset_id FROM touched JOIN sample s USING (sample_id));
    RETURN NULL;
END $$;

CREATE FUNCTION keep_past_score() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
END $$;

CREATE FUNCTION name_selections() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE selection SET dataset_name = NEW.name WHERE dataset_id = NEW.dataset_id;
    RETURN NULL;
END $$;

CREATE FUNCTION refresh_keypoint_digests() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
END $$;

CREATE FUNCTION refresh_reference_digests() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
END $$;

-- The texts that a rating or a label is about: those of now, unless whoever writes it says which. A changed row of a
-- manifest is about the texts that stand beside it; an unchanged one keeps the texts that it was first given for.

CREATE FUNCTION note_rated_text() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.text_sha256 IS NULL
       OR (TG_OP = 'UPDATE' AND NEW.row_sha256 <> OLD.row_sha256 AND NEW.text_sha256 = OLD.text_sha256) THEN
        NEW.text_sha256 := (SELECT text_sha256 FROM sample WHERE sample_id = NEW.sample_id);
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION note_labelled_texts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.text_sha256 IS NULL
       OR (TG_OP = 'UPDATE' AND NEW.row_sha256 <> OLD.row_sha256
           AND (NEW.text_sha256, NEW.keypoint_sha256) = (OLD.text_sha256, OLD.keypoint_sha256)) THEN
        NEW.text_sha256 := (SELECT text_sha256 FROM sample WHERE sample_id = NEW.sample_id);
        NEW.keypoint_sha256 := (SELECT sha256(utf8(text)) FROM keypoint WHERE keypoint_id = NEW.keypoint_id);
    END IF;
    RETURN NEW;
END $$;

CREATE TABLE model (
    model_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    fingerprint TEXT NOT NULL,
    name TEXT NOT NULL,
    revision TEXT NOT NULL,
    params JSONB NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_model PRIMARY KEY (model_id),
    CONSTRAINT uq_model_fingerprint UNIQUE (fingerprint)
);

CREATE TABLE text_fact (
    text_sha256 BYTEA NOT NULL,
    rule TEXT NOT NULL,
    words INTEGER NOT NULL,
    sentences INTEGER NOT NULL,
    repetition DOUBLE PRECISION,
    boilerplate DOUBLE PRECISION,
    digit_share DOUBLE PRECISION,
    name_share DOUBLE PRECISION,
    language TEXT,
    described_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_text_fact PRIMARY KEY (text_sha256)
);

CREATE TABLE view_definition (
    name TEXT NOT NULL,
    sql_sha256 BYTEA NOT NULL,
    CONSTRAINT pk_view_definition PRIMARY KEY (name)
);

CREATE TABLE dataset (
    dataset_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    name TEXT NOT NULL,
    n_shards INTEGER NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_dataset PRIMARY KEY (dataset_id),
    CONSTRAINT ck_dataset_n_shards CHECK (n_shards BETWEEN 1 AND 10000),
    CONSTRAINT uq_dataset_name UNIQUE (name)
);

CREATE TABLE scorer (
    scorer_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    metric TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    models JSONB NOT NULL,
    params JSONB NOT NULL,
    code_version TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_scorer PRIMARY KEY (scorer_id),
    CONSTRAINT ck_scorer_status CHECK (status IN ('candidate', 'active', 'retired')),
    CONSTRAINT uq_scorer_fingerprint UNIQUE (fingerprint)
);

CREATE UNIQUE INDEX uq_scorer_active_metric ON scorer (metric) WHERE status = 'active';

CREATE TABLE selection_item (
    selection_id BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    sample_id BIGINT NOT NULL,
    value DOUBLE PRECISION NOT NULL,
    sample TEXT NOT NULL,
    video TEXT NOT NULL,
    kind TEXT NOT NULL,
    system TEXT NOT NULL,
    text TEXT NOT NULL,
    question TEXT,
    answer TEXT,
    uri TEXT,
    content_sha256 BYTEA,
    scores DOUBLE PRECISION[] NOT NULL,
    is_scored BOOLEAN[] NOT NULL,
    CONSTRAINT pk_selection_item PRIMARY KEY (selection_id, rank)
);

CREATE TABLE chat_reply (
    request_sha256 BYTEA NOT NULL,
    model_id BIGINT NOT NULL,
    purpose TEXT NOT NULL,
    data JSONB NOT NULL,
    calls INTEGER NOT NULL,
    tokens_in BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    money DOUBLE PRECISION,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_chat_reply PRIMARY KEY (request_sha256),
    CONSTRAINT fk_chat_reply_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE
);

CREATE INDEX ix_chat_reply_model_id ON chat_reply (model_id);

CREATE TABLE chat_call (
    chat_call_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    model_id BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    purpose TEXT NOT NULL,
    request_sha256 BYTEA NOT NULL,
    attempt INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    http_status INTEGER,
    tokens_in BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    money DOUBLE PRECISION,
    duration_s DOUBLE PRECISION NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_chat_call PRIMARY KEY (chat_call_id),
    CONSTRAINT ck_chat_call_outcome CHECK (outcome IN ('ok', 'malformed', 'truncated', 'refused', 'unreachable', 'rejected', 'wrong_model')),
    CONSTRAINT ck_chat_call_reason_unless_ok CHECK ((outcome = 'ok') = (error IS NULL)),
    CONSTRAINT fk_chat_call_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE
);

CREATE INDEX ix_chat_call_model_id ON chat_call (model_id);

CREATE INDEX ix_chat_call_run_id ON chat_call (run_id);

CREATE TABLE text_embedding (
    model_id BIGINT NOT NULL,
    text_sha256 BYTEA NOT NULL,
    embedding VECTOR NOT NULL,
    n_chunks SMALLINT DEFAULT '1' NOT NULL,
    CONSTRAINT pk_text_embedding PRIMARY KEY (model_id, text_sha256),
    CONSTRAINT fk_text_embedding_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE
);

CREATE TABLE keyword_set (
    model_id BIGINT NOT NULL,
    text_sha256 BYTEA NOT NULL,
    keywords JSONB NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    run_id TEXT NOT NULL,
    extracted_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_keyword_set PRIMARY KEY (model_id, text_sha256),
    CONSTRAINT ck_keyword_set_status CHECK (status IN ('ok', 'refused', 'failed')),
    CONSTRAINT ck_keyword_set_reason_unless_ok CHECK ((status = 'ok') = (reason IS NULL)),
    CONSTRAINT ck_keyword_set_keywords_if_ok CHECK (status = 'ok' OR keywords = '[]'),
    CONSTRAINT fk_keyword_set_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE
);

CREATE TABLE entailment (
    model_id BIGINT NOT NULL,
    pair_sha256 BYTEA NOT NULL,
    probability DOUBLE PRECISION NOT NULL,
    truncated BOOLEAN NOT NULL,
    CONSTRAINT pk_entailment PRIMARY KEY (model_id, pair_sha256),
    CONSTRAINT ck_entailment_probability CHECK (probability BETWEEN 0 AND 1),
    CONSTRAINT fk_entailment_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE
);

CREATE TABLE shard (
    dataset_id BIGINT NOT NULL,
    shard INTEGER NOT NULL,
    n_samples BIGINT NOT NULL,
    CONSTRAINT pk_shard PRIMARY KEY (dataset_id, shard),
    CONSTRAINT fk_shard_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE
);

CREATE TABLE video (
    video_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    dataset_id BIGINT NOT NULL,
    shard INTEGER NOT NULL,
    key TEXT NOT NULL,
    uri TEXT,
    content_sha256 BYTEA,
    size_bytes BIGINT,
    mtime_ns BIGINT,
    ctime_ns BIGINT,
    inode BIGINT,
    etag TEXT,
    duration_s DOUBLE PRECISION,
    fps DOUBLE PRECISION,
    n_frames INTEGER,
    width INTEGER,
    height INTEGER,
    codec TEXT,
    status TEXT NOT NULL,
    error TEXT,
    extra JSONB,
    row_sha256 BYTEA NOT NULL,
    references_sha256 BYTEA,
    reference_segments_digest BYTEA,
    keypoints_sha256 BYTEA,
    video TEXT GENERATED ALWAYS AS (key) STORED,
    CONSTRAINT pk_video PRIMARY KEY (video_id),
    CONSTRAINT uq_video_dataset_id_key UNIQUE (dataset_id, key),
    CONSTRAINT ck_video_status CHECK (status IN ('ok', 'damaged', 'undecodable', 'text_only')),
    CONSTRAINT fk_video_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE
);

CREATE INDEX ix_video_dataset_id_shard ON video (dataset_id, shard);

CREATE TABLE ingest_reject (
    dataset_id BIGINT NOT NULL,
    source TEXT NOT NULL,
    line BIGINT NOT NULL,
    code TEXT NOT NULL,
    reason TEXT NOT NULL,
    raw TEXT NOT NULL,
    n_rows BIGINT DEFAULT '1' NOT NULL,
    ingested_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_ingest_reject PRIMARY KEY (dataset_id, source, line),
    CONSTRAINT fk_ingest_reject_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE
);

CREATE TABLE ingested_table (
    dataset_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    content_sha256 BYTEA NOT NULL,
    n_rows BIGINT NOT NULL,
    n_rejected BIGINT NOT NULL,
    CONSTRAINT pk_ingested_table PRIMARY KEY (dataset_id, kind),
    CONSTRAINT fk_ingested_table_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE
);

CREATE TABLE keypoint_threshold (
    keypoint_threshold_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    scorer_id BIGINT NOT NULL,
    dataset_id BIGINT NOT NULL,
    scope TEXT NOT NULL,
    shard INTEGER,
    dimension TEXT NOT NULL,
    threshold DOUBLE PRECISION NOT NULL,
    n_positive BIGINT,
    method TEXT NOT NULL,
    objective TEXT NOT NULL,
    n BIGINT NOT NULL,
    details JSONB DEFAULT '{}' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_keypoint_threshold PRIMARY KEY (keypoint_threshold_id),
    CONSTRAINT uq_keypoint_threshold_scope UNIQUE NULLS NOT DISTINCT (scorer_id, dataset_id, scope, shard, dimension, method, objective),
    CONSTRAINT ck_keypoint_threshold_scope CHECK (scope IN ('dataset', 'shard')),
    CONSTRAINT fk_keypoint_threshold_scorer_id FOREIGN KEY(scorer_id) REFERENCES scorer (scorer_id) ON DELETE CASCADE,
    CONSTRAINT fk_keypoint_threshold_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE
);

CREATE TABLE score_threshold (
    score_threshold_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    scorer_id BIGINT NOT NULL,
    dataset_id BIGINT NOT NULL,
    scope TEXT NOT NULL,
    shard INTEGER,
    kind TEXT NOT NULL,
    at_least DOUBLE PRECISION NOT NULL,
    low DOUBLE PRECISION,
    high DOUBLE PRECISION,
    n_kept BIGINT NOT NULL,
    n_good BIGINT,
    method TEXT NOT NULL,
    objective TEXT NOT NULL,
    n BIGINT NOT NULL,
    details JSONB DEFAULT '{}' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_score_threshold PRIMARY KEY (score_threshold_id),
    CONSTRAINT ck_score_threshold_kind CHECK (kind IN ('caption', 'qa')),
    CONSTRAINT uq_score_threshold_scope UNIQUE NULLS NOT DISTINCT (scorer_id, dataset_id, scope, shard, kind, method, objective),
    CONSTRAINT ck_score_threshold_scope CHECK (scope IN ('dataset', 'shard')),
    CONSTRAINT fk_score_threshold_scorer_id FOREIGN KEY(scorer_id) REFERENCES scorer (scorer_id) ON DELETE CASCADE,
    CONSTRAINT fk_score_threshold_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE
);

CREATE TABLE agreement (
    agreement_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    dataset_id BIGINT NOT NULL,
    scorer_id BIGINT,
    metric TEXT NOT NULL,
    aspect TEXT NOT NULL,
    grouping TEXT NOT NULL,
    statistic TEXT NOT NULL,
    value DOUBLE PRECISION,
    low DOUBLE PRECISION,
    high DOUBLE PRECISION,
    n BIGINT NOT NULL,
    n_undefined BIGINT NOT NULL,
    n_undefined_resamples BIGINT NOT NULL,
    n_stale BIGINT NOT NULL,
    baseline BOOLEAN NOT NULL,
    seed BIGINT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_agreement PRIMARY KEY (agreement_id),
    CONSTRAINT uq_agreement_statistic UNIQUE (dataset_id, metric, aspect, grouping, statistic),
    CONSTRAINT fk_agreement_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE,
    CONSTRAINT fk_agreement_scorer_id FOREIGN KEY(scorer_id) REFERENCES scorer (scorer_id) ON DELETE CASCADE
);

CREATE TABLE shard_count (
    scorer_id BIGINT NOT NULL,
    dataset_id BIGINT NOT NULL,
    shard INTEGER NOT NULL,
    status TEXT NOT NULL,
    n BIGINT NOT NULL,
    CONSTRAINT pk_shard_count PRIMARY KEY (scorer_id, dataset_id, shard, status),
    CONSTRAINT fk_shard_count_scorer_id FOREIGN KEY(scorer_id) REFERENCES scorer (scorer_id) ON DELETE CASCADE,
    CONSTRAINT fk_shard_count_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE
);

CREATE TABLE selection (
    selection_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    dataset_id BIGINT,
    dataset_name TEXT NOT NULL,
    spec JSONB NOT NULL,
    n BIGINT NOT NULL,
    cutoff DOUBLE PRECISION,
    score_hash TEXT NOT NULL,
    n_eligible BIGINT NOT NULL,
    n_duplicates BIGINT NOT NULL,
    n_tied BIGINT,
    n_tied_left BIGINT,
    unjudged JSONB NOT NULL,
    metrics TEXT[] NOT NULL,
    models TEXT[] NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_selection PRIMARY KEY (selection_id),
    CONSTRAINT fk_selection_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE SET NULL
);

CREATE INDEX ix_selection_dataset_id_score_hash ON selection (dataset_id, score_hash);

CREATE TABLE frame_set (
    model_id BIGINT NOT NULL,
    video_id BIGINT NOT NULL,
    content_sha256 BYTEA NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    n_frames INTEGER,
    n_sampled INTEGER NOT NULL,
    reader TEXT,
    encoded_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_frame_set PRIMARY KEY (model_id, video_id),
    CONSTRAINT ck_frame_set_status CHECK (status IN ('ok', 'unreadable', 'failed')),
    CONSTRAINT ck_frame_set_reason_unless_ok CHECK ((status = 'ok') = (error IS NULL)),
    CONSTRAINT fk_frame_set_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE,
    CONSTRAINT fk_frame_set_video_id FOREIGN KEY(video_id) REFERENCES video (video_id) ON DELETE CASCADE
);

CREATE INDEX ix_frame_set_video_id ON frame_set (video_id);

CREATE TABLE frame_embedding (
    model_id BIGINT NOT NULL,
    video_id BIGINT NOT NULL,
    frame_index INTEGER NOT NULL,
    time_s DOUBLE PRECISION NOT NULL,
    embedding VECTOR NOT NULL,
    CONSTRAINT pk_frame_embedding PRIMARY KEY (model_id, video_id, frame_index),
    CONSTRAINT fk_frame_embedding_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE,
    CONSTRAINT fk_frame_embedding_video_id FOREIGN KEY(video_id) REFERENCES video (video_id) ON DELETE CASCADE
);

CREATE INDEX ix_frame_embedding_video_id ON frame_embedding (video_id);

CREATE TABLE video_fact (
    video_id BIGINT NOT NULL,
    content_sha256 BYTEA NOT NULL,
    rule TEXT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    motion DOUBLE PRECISION,
    motion_min DOUBLE PRECISION,
    motion_max DOUBLE PRECISION,
    camera_motion DOUBLE PRECISION,
    object_motion DOUBLE PRECISION,
    frame_change DOUBLE PRECISION,
    frame_change_min DOUBLE PRECISION,
    frame_change_max DOUBLE PRECISION,
    static_share DOUBLE PRECISION,
    frozen_share DOUBLE PRECISION,
    black_share DOUBLE PRECISION,
    sharpness DOUBLE PRECISION,
    sharpness_min DOUBLE PRECISION,
    sharpness_max DOUBLE PRECISION,
    brightness DOUBLE PRECISION,
    brightness_min DOUBLE PRECISION,
    brightness_max DOUBLE PRECISION,
    contrast DOUBLE PRECISION,
    contrast_min DOUBLE PRECISION,
    contrast_max DOUBLE PRECISION,
    letterbox DOUBLE PRECISION,
    cuts INTEGER,
    has_sound BOOLEAN,
    signature BYTEA,
    repeated_share DOUBLE PRECISION,
    measured_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_video_fact PRIMARY KEY (video_id),
    CONSTRAINT ck_video_fact_status CHECK (status IN ('ok', 'unreadable', 'failed')),
    CONSTRAINT ck_video_fact_reason_unless_ok CHECK ((status = 'ok') = (error IS NULL)),
    CONSTRAINT fk_video_fact_video_id FOREIGN KEY(video_id) REFERENCES video (video_id) ON DELETE CASCADE
);

CREATE TABLE reference (
    reference_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    dataset_id BIGINT NOT NULL,
    video_id BIGINT NOT NULL,
    key TEXT NOT NULL,
    annotator TEXT NOT NULL,
    text TEXT NOT NULL,
    segments JSONB,
    text_sha256 BYTEA NOT NULL,
    extra JSONB,
    row_sha256 BYTEA NOT NULL,
    CONSTRAINT pk_reference PRIMARY KEY (reference_id),
    CONSTRAINT uq_reference_dataset_id_key UNIQUE (dataset_id, key),
    CONSTRAINT fk_reference_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE,
    CONSTRAINT fk_reference_video_id FOREIGN KEY(video_id) REFERENCES video (video_id) ON DELETE CASCADE
);

CREATE INDEX ix_reference_video_id ON reference (video_id);

CREATE TABLE keypoint (
    keypoint_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    dataset_id BIGINT NOT NULL,
    video_id BIGINT NOT NULL,
    key TEXT NOT NULL,
    dimension TEXT NOT NULL,
    text TEXT NOT NULL,
    segment_index INTEGER,
    extra JSONB,
    row_sha256 BYTEA NOT NULL,
    CONSTRAINT pk_keypoint PRIMARY KEY (keypoint_id),
    CONSTRAINT uq_keypoint_dataset_id_key UNIQUE (dataset_id, key),
    CONSTRAINT fk_keypoint_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE,
    CONSTRAINT fk_keypoint_video_id FOREIGN KEY(video_id) REFERENCES video (video_id) ON DELETE CASCADE
);

CREATE INDEX ix_keypoint_video_id ON keypoint (video_id);

CREATE TABLE sample (
    sample_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    dataset_id BIGINT NOT NULL,
    shard INTEGER NOT NULL,
    video_id BIGINT NOT NULL,
    key TEXT NOT NULL,
    kind TEXT NOT NULL,
    system TEXT NOT NULL,
    text TEXT NOT NULL,
    question TEXT,
    answer TEXT,
    segments JSONB,
    text_sha256 BYTEA NOT NULL,
    extra JSONB,
    row_sha256 BYTEA NOT NULL,
    pair_sha256 BYTEA GENERATED ALWAYS AS (CASE WHEN kind = 'qa' THEN sha256(text_sha256 || sha256(utf8(COALESCE(question, ''))) || sha256(utf8(COALESCE(answer, '')))) END) STORED,
    segments_sha256 BYTEA GENERATED ALWAYS AS (CASE WHEN segments IS NOT NULL THEN sha256(utf8(CAST(segments AS text))) END) STORED,
    sample TEXT GENERATED ALWAYS AS (key) STORED,
    CONSTRAINT pk_sample PRIMARY KEY (sample_id),
    CONSTRAINT uq_sample_dataset_id_kind_key UNIQUE (dataset_id, kind, key),
    CONSTRAINT ck_sample_kind CHECK (kind IN ('caption', 'qa')),
    CONSTRAINT fk_sample_dataset_id FOREIGN KEY(dataset_id) REFERENCES dataset (dataset_id) ON DELETE CASCADE,
    CONSTRAINT fk_sample_video_id FOREIGN KEY(video_id) REFERENCES video (video_id) ON DELETE CASCADE
);

CREATE INDEX ix_sample_dataset_id_shard ON sample (dataset_id, shard);

CREATE INDEX ix_sample_video_id ON sample (video_id);

CREATE TABLE qeva_question_set (
    question_set_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    model_id BIGINT NOT NULL,
    dimension TEXT NOT NULL,
    video_id BIGINT NOT NULL,
    sample_id BIGINT,
    source_sha256 BYTEA NOT NULL,
    n_requested INTEGER NOT NULL,
    n_malformed INTEGER NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    run_id TEXT NOT NULL,
    written_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_qeva_question_set PRIMARY KEY (question_set_id),
    CONSTRAINT uq_qeva_question_set_source UNIQUE NULLS NOT DISTINCT (model_id, video_id, sample_id, dimension),
    CONSTRAINT ck_qeva_question_set_status CHECK (status IN ('ok', 'refused', 'error')),
    CONSTRAINT ck_qeva_question_set_reason_unless_ok CHECK (status = 'ok' OR reason IS NOT NULL),
    CONSTRAINT fk_qeva_question_set_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE,
    CONSTRAINT fk_qeva_question_set_video_id FOREIGN KEY(video_id) REFERENCES video (video_id) ON DELETE CASCADE,
    CONSTRAINT fk_qeva_question_set_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE
);

CREATE INDEX ix_qeva_question_set_video_id ON qeva_question_set (video_id);

CREATE INDEX ix_qeva_question_set_sample_id ON qeva_question_set (sample_id);

CREATE TABLE verdict_set (
    scorer_id BIGINT NOT NULL,
    sample_id BIGINT NOT NULL,
    input_sha256 BYTEA NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    n_sentences INTEGER NOT NULL,
    n_passes INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    verified_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_verdict_set PRIMARY KEY (scorer_id, sample_id),
    CONSTRAINT ck_verdict_set_status CHECK (status IN ('ok', 'unverifiable')),
    CONSTRAINT ck_verdict_set_reason_unless_ok CHECK ((status = 'ok') = (error IS NULL)),
    CONSTRAINT fk_verdict_set_scorer_id FOREIGN KEY(scorer_id) REFERENCES scorer (scorer_id) ON DELETE CASCADE,
    CONSTRAINT fk_verdict_set_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE
);

CREATE INDEX ix_verdict_set_sample_id ON verdict_set (sample_id);

CREATE TABLE rating (
    sample_id BIGINT NOT NULL,
    rater TEXT NOT NULL,
    aspect TEXT NOT NULL,
    value DOUBLE PRECISION NOT NULL,
    extra JSONB,
    row_sha256 BYTEA NOT NULL,
    text_sha256 BYTEA NOT NULL,
    CONSTRAINT pk_rating PRIMARY KEY (sample_id, rater, aspect),
    CONSTRAINT fk_rating_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE
);

CREATE TABLE preference (
    sample_id BIGINT NOT NULL,
    other_id BIGINT NOT NULL,
    rater TEXT NOT NULL,
    aspect TEXT NOT NULL,
    value SMALLINT NOT NULL,
    text_sha256 BYTEA NOT NULL,
    other_sha256 BYTEA NOT NULL,
    extra JSONB,
    CONSTRAINT pk_preference PRIMARY KEY (sample_id, other_id, rater, aspect),
    CONSTRAINT ck_preference_one_order CHECK (sample_id < other_id),
    CONSTRAINT ck_preference_value CHECK (value IN (-1, 0, 1)),
    CONSTRAINT fk_preference_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE,
    CONSTRAINT fk_preference_other_id FOREIGN KEY(other_id) REFERENCES sample (sample_id) ON DELETE CASCADE
);

CREATE INDEX ix_preference_other_id ON preference (other_id);

CREATE TABLE keypoint_label (
    keypoint_id BIGINT NOT NULL,
    sample_id BIGINT NOT NULL,
    source TEXT NOT NULL,
    covered BOOLEAN NOT NULL,
    extra JSONB,
    row_sha256 BYTEA NOT NULL,
    text_sha256 BYTEA NOT NULL,
    keypoint_sha256 BYTEA NOT NULL,
    CONSTRAINT pk_keypoint_label PRIMARY KEY (keypoint_id, sample_id, source),
    CONSTRAINT fk_keypoint_label_keypoint_id FOREIGN KEY(keypoint_id) REFERENCES keypoint (keypoint_id) ON DELETE CASCADE,
    CONSTRAINT fk_keypoint_label_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE
);

CREATE INDEX ix_keypoint_label_sample_id ON keypoint_label (sample_id);

CREATE TABLE score (
    scorer_id BIGINT NOT NULL,
    sample_id BIGINT NOT NULL,
    input_sha256 BYTEA NOT NULL,
    input_marks JSONB DEFAULT '{}' NOT NULL,
    value DOUBLE PRECISION,
    components JSONB NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    is_stale BOOLEAN DEFAULT 'false' NOT NULL,
    run_id TEXT NOT NULL,
    scored_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_score PRIMARY KEY (scorer_id, sample_id) INCLUDE (value, is_stale),
    CONSTRAINT ck_score_value_iff_ok CHECK ((status = 'ok') = (value IS NOT NULL)),
    CONSTRAINT ck_score_value_finite CHECK (value <> 'NaN' AND abs(value) < 'Infinity'),
    CONSTRAINT ck_score_reason_unless_ok CHECK ((status = 'ok') = (error IS NULL)),
    CONSTRAINT fk_score_scorer_id FOREIGN KEY(scorer_id) REFERENCES scorer (scorer_id) ON DELETE CASCADE,
    CONSTRAINT fk_score_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE
);

CREATE INDEX ix_score_sample_id ON score (sample_id);

CREATE INDEX ix_score_scorer_id_value ON score (scorer_id, value DESC NULLS LAST) INCLUDE (sample_id, is_stale);

CREATE TABLE past_score (
    past_score_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    scorer_id BIGINT NOT NULL,
    sample_id BIGINT NOT NULL,
    input_sha256 BYTEA NOT NULL,
    value DOUBLE PRECISION,
    components JSONB NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    run_id TEXT NOT NULL,
    scored_at TIMESTAMP WITH TIME ZONE NOT NULL,
    replaced_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    reason TEXT NOT NULL,
    CONSTRAINT pk_past_score PRIMARY KEY (past_score_id),
    CONSTRAINT fk_past_score_scorer_id FOREIGN KEY(scorer_id) REFERENCES scorer (scorer_id) ON DELETE CASCADE,
    CONSTRAINT fk_past_score_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE
);

CREATE INDEX ix_past_score_sample_id ON past_score (sample_id);

CREATE INDEX ix_past_score_scorer_id ON past_score (scorer_id);

CREATE TABLE qeva_question (
    question_id BIGINT GENERATED BY DEFAULT AS IDENTITY,
    question_set_id BIGINT NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    choices JSONB NOT NULL,
    answer TEXT NOT NULL,
    category TEXT,
    events JSONB NOT NULL,
    statements JSONB NOT NULL,
    closed_book JSONB,
    open_book TEXT,
    decision TEXT,
    filter_reason TEXT,
    filter_failure TEXT,
    CONSTRAINT pk_qeva_question PRIMARY KEY (question_id),
    CONSTRAINT uq_qeva_question_question_set_id_position UNIQUE (question_set_id, position),
    CONSTRAINT ck_qeva_question_decision CHECK (decision IN ('keep', 'trivial', 'low_quality', 'error')),
    CONSTRAINT ck_qeva_question_filter_failure CHECK (filter_failure IN ('malformed', 'refused', 'error')),
    CONSTRAINT ck_qeva_question_failure_iff_error CHECK ((filter_failure IS NOT NULL) = (decision IS NOT DISTINCT FROM 'error')),
    CONSTRAINT fk_qeva_question_question_set_id FOREIGN KEY(question_set_id) REFERENCES qeva_question_set (question_set_id) ON DELETE CASCADE
);

CREATE TABLE ecs_verdict (
    scorer_id BIGINT NOT NULL,
    sample_id BIGINT NOT NULL,
    keypoint_id BIGINT NOT NULL,
    probability DOUBLE PRECISION,
    sentence_index INTEGER,
    sentence TEXT,
    is_lower_bound BOOLEAN NOT NULL,
    n_passes INTEGER NOT NULL,
    CONSTRAINT pk_ecs_verdict PRIMARY KEY (scorer_id, sample_id, keypoint_id),
    CONSTRAINT fk_ecs_verdict_scorer_id_sample_id FOREIGN KEY(scorer_id, sample_id) REFERENCES verdict_set (scorer_id, sample_id) ON DELETE CASCADE,
    CONSTRAINT ck_ecs_verdict_probability CHECK (probability BETWEEN 0 AND 1),
    CONSTRAINT ck_ecs_verdict_best_sentence CHECK (num_nulls(probability, sentence_index, sentence) IN (0, 3)),
    CONSTRAINT fk_ecs_verdict_keypoint_id FOREIGN KEY(keypoint_id) REFERENCES keypoint (keypoint_id) ON DELETE CASCADE
);

CREATE INDEX ix_ecs_verdict_sample_id ON ecs_verdict (sample_id);

CREATE INDEX ix_ecs_verdict_keypoint_id ON ecs_verdict (keypoint_id);

CREATE TABLE qeva_answer (
    question_id BIGINT NOT NULL,
    sample_id BIGINT NOT NULL,
    model_id BIGINT NOT NULL,
    context_sha256 BYTEA NOT NULL,
    status TEXT NOT NULL,
    raw TEXT NOT NULL,
    normalised TEXT,
    correct BOOLEAN,
    reason TEXT,
    score DOUBLE PRECISION,
    evidence TEXT,
    run_id TEXT NOT NULL,
    answered_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT pk_qeva_answer PRIMARY KEY (question_id, sample_id, model_id),
    CONSTRAINT ck_qeva_answer_status CHECK (status IN ('ok', 'abstain', 'malformed', 'refused', 'error')),
    CONSTRAINT ck_qeva_answer_answer_iff_ok CHECK ((status = 'ok') = (normalised IS NOT NULL)),
    CONSTRAINT ck_qeva_answer_judged_if_answered CHECK (correct IS NULL OR status IN ('ok', 'abstain')),
    CONSTRAINT fk_qeva_answer_question_id FOREIGN KEY(question_id) REFERENCES qeva_question (question_id) ON DELETE CASCADE,
    CONSTRAINT fk_qeva_answer_sample_id FOREIGN KEY(sample_id) REFERENCES sample (sample_id) ON DELETE CASCADE,
    CONSTRAINT fk_qeva_answer_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE
);

CREATE INDEX ix_qeva_answer_sample_id ON qeva_answer (sample_id);

CREATE TRIGGER rating_texts BEFORE INSERT OR UPDATE ON rating FOR EACH ROW EXECUTE FUNCTION note_rated_text();
CREATE TRIGGER keypoint_label_texts BEFORE INSERT OR UPDATE ON keypoint_label FOR EACH ROW EXECUTE FUNCTION note_labelled_texts();
CREATE TRIGGER reference_inserted AFTER INSERT ON reference REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refresh_reference_digests();
CREATE TRIGGER reference_deleted AFTER DELETE ON reference REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refresh_reference_digests();
CREATE TRIGGER reference_updated AFTER UPDATE ON reference REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refresh_reference_digests();
CREATE TRIGGER reference_moved_away AFTER UPDATE ON reference REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refresh_reference_digests();
CREATE TRIGGER keypoint_inserted AFTER INSERT ON keypoint REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refresh_keypoint_digests();
CREATE TRIGGER keypoint_deleted AFTER DELETE ON keypoint REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refresh_keypoint_digests();
CREATE TRIGGER keypoint_updated AFTER UPDATE ON keypoint REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refresh_keypoint_digests();
CREATE TRIGGER keypoint_moved_away AFTER UPDATE ON keypoint REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION refresh_keypoint_digests();
CREATE TRIGGER sample_marks AFTER UPDATE ON sample REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION mark_samples();
CREATE TRIGGER video_marks AFTER UPDATE ON video REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION mark_videos();
CREATE TRIGGER keypoint_threshold_marks_inserted AFTER INSERT ON keypoint_threshold REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION mark_thresholds();
CREATE TRIGGER score_counts_inserted AFTER INSERT ON score REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION count_scores('1');
CREATE TRIGGER keypoint_threshold_marks_deleted AFTER DELETE ON keypoint_threshold REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION mark_thresholds();
CREATE TRIGGER score_counts_deleted AFTER DELETE ON score REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION count_scores('-1');
CREATE TRIGGER keypoint_threshold_marks_updated AFTER UPDATE ON keypoint_threshold REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION mark_thresholds();
CREATE TRIGGER score_counts_updated AFTER UPDATE ON score REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION count_scores('1');
CREATE TRIGGER keypoint_threshold_marks_moved_away AFTER UPDATE ON keypoint_threshold REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION mark_thresholds();
CREATE TRIGGER score_counts_moved_away AFTER UPDATE ON score REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION count_scores('-1');
CREATE TRIGGER keypoint_threshold_marks_emptied AFTER TRUNCATE ON keypoint_threshold FOR EACH STATEMENT EXECUTE FUNCTION mark_all();
CREATE TRIGGER score_counts_emptied AFTER TRUNCATE ON score FOR EACH STATEMENT EXECUTE FUNCTION forget_score_counts();
CREATE TRIGGER sample_counts_inserted AFTER INSERT ON sample REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION count_new_samples();
CREATE TRIGGER sample_counts_deleted AFTER DELETE ON sample REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION count_shards_again();
CREATE TRIGGER sample_counts_emptied AFTER TRUNCATE ON sample FOR EACH STATEMENT EXECUTE FUNCTION forget_sample_counts();
CREATE TRIGGER sample_counts_moved AFTER UPDATE ON sample REFERENCING OLD TABLE AS gone NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION count_moved_samples();
CREATE TRIGGER video_forgets_delete AFTER DELETE ON video REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables();
CREATE TRIGGER video_forgets_update AFTER UPDATE ON video REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables();
CREATE TRIGGER video_forgets_truncate AFTER TRUNCATE ON video FOR EACH STATEMENT EXECUTE FUNCTION forget_all_tables();
CREATE TRIGGER sample_forgets_delete AFTER DELETE ON sample REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables();
CREATE TRIGGER sample_forgets_update AFTER UPDATE ON sample REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables();
CREATE TRIGGER sample_forgets_truncate AFTER TRUNCATE ON sample FOR EACH STATEMENT EXECUTE FUNCTION forget_all_tables();
CREATE TRIGGER reference_forgets_delete AFTER DELETE ON reference REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables();
CREATE TRIGGER reference_forgets_update AFTER UPDATE ON reference REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables();
CREATE TRIGGER reference_forgets_truncate AFTER TRUNCATE ON reference FOR EACH STATEMENT EXECUTE FUNCTION forget_all_tables();
CREATE TRIGGER keypoint_forgets_delete AFTER DELETE ON keypoint REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables();
CREATE TRIGGER keypoint_forgets_update AFTER UPDATE ON keypoint REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables();
CREATE TRIGGER keypoint_forgets_truncate AFTER TRUNCATE ON keypoint FOR EACH STATEMENT EXECUTE FUNCTION forget_all_tables();
CREATE TRIGGER rating_forgets_delete AFTER DELETE ON rating REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables_of_samples();
CREATE TRIGGER rating_forgets_update AFTER UPDATE ON rating REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables_of_samples();
CREATE TRIGGER rating_forgets_truncate AFTER TRUNCATE ON rating FOR EACH STATEMENT EXECUTE FUNCTION forget_all_tables();
CREATE TRIGGER keypoint_label_forgets_delete AFTER DELETE ON keypoint_label REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables_of_samples();
CREATE TRIGGER keypoint_label_forgets_update AFTER UPDATE ON keypoint_label REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION forget_tables_of_samples();
CREATE TRIGGER keypoint_label_forgets_truncate AFTER TRUNCATE ON keypoint_label FOR EACH STATEMENT EXECUTE FUNCTION forget_all_tables();
CREATE TRIGGER selection_forgets_deleted AFTER DELETE ON selection REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION forget_items();
CREATE TRIGGER selection_forgets_truncated AFTER TRUNCATE ON selection FOR EACH STATEMENT EXECUTE FUNCTION forget_all_items();
CREATE TRIGGER keep_past_score AFTER UPDATE ON score FOR EACH ROW WHEN (OLD.input_sha256 IS DISTINCT FROM NEW.input_sha256 OR OLD.value IS DISTINCT FROM NEW.value OR OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION keep_past_score();
CREATE TRIGGER dataset_names_selections AFTER UPDATE OF name ON dataset FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION name_selections();
