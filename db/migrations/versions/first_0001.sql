-- The functions and triggers of the first migration, which makes the tables of db/schema between them. Functions and
-- views that depend on the metrics are made by db/schema/views.py.

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
                                                                WHERE shard IS NULL AND method = 'keypoint_labels')),
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
    WHERE n.value IS DISTINCT FROM OLD.input_marks->>n.key;
    INSERT INTO past_score (scorer_id, sample_id, input_sha256, value, components, status, error, run_id, scored_at,
                            reason)
    VALUES (OLD.scorer_id, OLD.sample_id, OLD.input_sha256, OLD.value, OLD.components, OLD.status, OLD.error,
            OLD.run_id, OLD.scored_at,
            CASE WHEN changed IS NOT NULL THEN changed
                 WHEN OLD.input_sha256 <> NEW.input_sha256 THEN 'inputs'
                 WHEN OLD.status = 'failed' THEN 'tried again'
                 ELSE 'rule'
            END);
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

CREATE FUNCTION note_changed_text() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF EXISTS (SELECT FROM rating WHERE sample_id = NEW.sample_id)
       OR EXISTS (SELECT FROM score JOIN scorer USING (scorer_id)
                   WHERE sample_id = NEW.sample_id AND metric = 'judge' AND score.status NOT IN ('not_drawn', 'failed')) THEN
        NEW.changed_at := now();
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION keep_first_value() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NEW.text_sha256 IS DISTINCT FROM OLD.text_sha256 THEN
        NEW.first_value := NULL;
    ELSIF NEW.value <> OLD.value THEN
        NEW.first_value := COALESCE(OLD.first_value, OLD.value);
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION note_rewritten_sample() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF (OLD.video_id, OLD.system, OLD.segments, OLD.extra)
       IS DISTINCT FROM (NEW.video_id, NEW.system, NEW.segments, NEW.extra) THEN
        NEW.rewritten_at := now();
    END IF;
    RETURN NEW;
END $$;

CREATE FUNCTION note_rewritten_video() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF (OLD.status, OLD.content_sha256, OLD.licence, OLD.source_url, OLD.collected_at, OLD.opt_out, OLD.extra)
       IS DISTINCT FROM
       (NEW.status, NEW.content_sha256, NEW.licence, NEW.source_url, NEW.collected_at, NEW.opt_out, NEW.extra) THEN
        NEW.rewritten_at := now();
    END IF;
    RETURN NEW;
END $$;

-- TABLES

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
CREATE TRIGGER sample_changes BEFORE UPDATE ON sample FOR EACH ROW WHEN (OLD.text_sha256 <> NEW.text_sha256 OR OLD.question IS DISTINCT FROM NEW.question OR OLD.answer IS DISTINCT FROM NEW.answer) EXECUTE FUNCTION note_changed_text();
-- Triggers of a table fire in the order of their names: after rating_texts, which notes the text.
CREATE TRIGGER rating_values BEFORE UPDATE ON rating FOR EACH ROW EXECUTE FUNCTION keep_first_value();
CREATE TRIGGER sample_rewritten BEFORE UPDATE ON sample FOR EACH ROW EXECUTE FUNCTION note_rewritten_sample();
CREATE TRIGGER video_rewritten BEFORE UPDATE ON video FOR EACH ROW EXECUTE FUNCTION note_rewritten_video();
