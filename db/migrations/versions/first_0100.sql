-- The functions of revision 0100, which its triggers call.

CREATE FUNCTION utf8(text) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN convert_to($1, 'UTF8');

CREATE FUNCTION change_counts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO shard_count (scorer_id, kind, dataset_id, shard, version)
    SELECT scorer_id, TG_ARGV[0], dataset_id, shard, nextval('change_number')
    FROM (SELECT DISTINCT t.scorer_id, s.dataset_id, s.shard
          FROM touched t
          JOIN sample s USING (sample_id)
          JOIN scorer USING (scorer_id)
          ORDER BY t.scorer_id, s.dataset_id, s.shard) changed
    ON CONFLICT (scorer_id, kind, dataset_id, shard) DO UPDATE SET version = EXCLUDED.version;
    RETURN NULL;
END $$;

CREATE FUNCTION change_shards() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO shard (dataset_id, shard, version)
    SELECT dataset_id, shard, nextval('change_number')
    FROM (SELECT DISTINCT t.dataset_id, t.shard
          FROM touched t
          JOIN dataset USING (dataset_id)
          ORDER BY t.dataset_id, t.shard) changed
    ON CONFLICT (dataset_id, shard) DO UPDATE SET version = EXCLUDED.version;
    RETURN NULL;
END $$;

CREATE FUNCTION change_thresholds() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM 1
    FROM shard_count
    WHERE kind = 'scores'
      AND (scorer_id, dataset_id) IN (SELECT scorer_id, dataset_id FROM touched
                                      WHERE scope = 'dataset' AND method = 'keypoint_labels')
    ORDER BY scorer_id, dataset_id, shard
    FOR NO KEY UPDATE;
    UPDATE shard_count
    SET version = nextval('change_number')
    WHERE kind = 'scores'
      AND (scorer_id, dataset_id) IN (SELECT scorer_id, dataset_id FROM touched
                                      WHERE scope = 'dataset' AND method = 'keypoint_labels');
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

CREATE FUNCTION forget_counts() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM shard_count;
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
