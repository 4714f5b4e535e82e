-- Scores without a value for the samples of a shard that no draw of a metric has reached, where a scorer of the metric
-- has none yet, a stale one or a failed one. The placeholders in braces become expressions of db/schema/inputs.py.
INSERT INTO score (scorer_id, sample_id, input_sha256, input_marks, value, components, status, error, is_stale, run_id)
SELECT CAST(:scorer_id AS bigint), s.sample_id, {input_sha256}, {input_marks}, NULL, '{{}}', :status, :reason, false,
       :run_id
FROM sample s
JOIN video v USING (video_id)
LEFT JOIN drawn_sample d ON d.sample_id = s.sample_id AND d.metric = :metric
LEFT JOIN score c ON c.scorer_id = CAST(:scorer_id AS bigint) AND c.sample_id = s.sample_id
WHERE s.dataset_id = :dataset_id
  AND s.shard = :shard
  AND (c.sample_id IS NULL OR c.is_stale OR c.status = 'failed')
  AND d.sample_id IS NULL
ORDER BY s.sample_id
ON CONFLICT (scorer_id, sample_id) DO UPDATE
SET input_sha256 = excluded.input_sha256,
    input_marks = excluded.input_marks,
    value = NULL,
    components = excluded.components,
    status = excluded.status,
    error = excluded.error,
    is_stale = false,
    run_id = excluded.run_id,
    scored_at = now()
