-- Updates is_stale after an input of these samples changed; first waits for scores of them that are being written.
CREATE OR REPLACE FUNCTION mark_scores(samples bigint[], scorers bigint[] DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM 1
    FROM shard
    WHERE (dataset_id, shard) IN (SELECT dataset_id, shard FROM sample WHERE sample_id = ANY(samples))
    ORDER BY dataset_id, shard
    FOR UPDATE;
    PERFORM compare_scores(samples, scorers);
END $$
