    SELECT s.dataset_id,
           s.shard,
           CASE WHEN c.sample_id IS NULL THEN 'unscored'
                WHEN c.input_sha256 <> {input_sha256} THEN 'stale'
                ELSE c.status
           END AS status,
           count(*) AS n
    FROM due
    JOIN sample s USING (dataset_id, shard)
    JOIN video v USING (video_id)
    LEFT JOIN score c ON c.scorer_id = CAST(:scorer_id AS bigint) AND c.sample_id = s.sample_id
    GROUP BY s.dataset_id, s.shard, 3
