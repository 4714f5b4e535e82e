-- The samples of one shard that a scorer has yet to score: without a score, with a stale score, or with a failed one.
SELECT s.sample_id
FROM sample s
LEFT JOIN score c ON c.scorer_id = CAST(:scorer_id AS bigint) AND c.sample_id = s.sample_id
WHERE s.dataset_id = :dataset_id
  AND s.shard = :shard
  AND (c.sample_id IS NULL OR c.is_stale OR c.status = 'failed')
ORDER BY s.sample_id
