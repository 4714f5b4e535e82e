SELECT count(*) AS n_samples,
       count(*) FILTER (WHERE c.status = 'not_applicable') AS n_not_applicable,
       count(*) FILTER (WHERE s.kind = 'qa' AND c.status IS DISTINCT FROM 'not_applicable') AS n_qa,
       count(*) FILTER (WHERE c.sample_id IS NULL) AS n_unscored,
       count(*) FILTER (WHERE c.status = 'failed') AS n_failed,
       count(*) FILTER (WHERE c.status = 'ok') AS n_ok,
       count(DISTINCT c.value) AS n_distinct,
       count(*) FILTER (WHERE c.status = 'stale') AS n_stale,
       min(c.value) AS minimum,
       max(c.value) AS maximum
FROM sample s
LEFT JOIN current_score c ON c.scorer_id = CAST(:scorer_id AS bigint) AND c.sample_id = s.sample_id
WHERE s.dataset_id = :dataset_id
  AND (CAST(:shard AS integer) IS NULL OR s.shard = :shard)
