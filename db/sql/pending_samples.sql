-- The work list of a scorer on one shard: samples without a score, with a stale score, and with a failed one.
-- The placeholder in braces becomes one of the expressions in db/schema/inputs.py, never user input.
SELECT s.sample_id
FROM sample s
JOIN video v USING (video_id)
LEFT JOIN score c ON c.scorer_id = CAST(:scorer_id AS bigint) AND c.sample_id = s.sample_id
WHERE s.dataset_id = :dataset_id
  AND s.shard = :shard
  AND (c.sample_id IS NULL OR c.status = 'failed' OR c.input_sha256 <> {input_sha256})
ORDER BY s.sample_id
