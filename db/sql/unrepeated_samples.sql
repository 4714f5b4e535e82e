-- Samples of a dataset with a current value by a scorer, about which its judge has given fewer answers than the draws of
-- the metric wish. Answers that failed are asked for again, and answers about another text or video do not count.
SELECT s.sample_id, s.shard
FROM drawn_sample d
JOIN sample s USING (sample_id)
JOIN score c ON c.scorer_id = :scorer_id AND c.sample_id = s.sample_id AND c.status = 'ok' AND NOT c.is_stale
JOIN judge_answer f ON f.sample_id = s.sample_id AND f.model_id = CAST(:model_id AS bigint) AND f.repeat = 0
WHERE s.dataset_id = :dataset_id
  AND d.metric = :metric
  AND d.n_answers > 1
  AND f.status = 'ok'
  AND d.n_answers - 1 > (
      SELECT count(*)
      FROM judge_answer a
      WHERE a.sample_id = s.sample_id
        AND a.model_id = f.model_id
        AND a.repeat BETWEEN 1 AND d.n_answers - 1
        AND a.status <> 'failed'
        AND a.context_sha256 = f.context_sha256
  )
ORDER BY s.sample_id
