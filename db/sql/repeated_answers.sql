-- Further answers of a judge about samples of a dataset, where the scorer has a current value from the first answer.
SELECT s.sample_id, s.video_id, s.system, a.value
FROM judge_answer a
JOIN judge_answer f ON f.sample_id = a.sample_id AND f.model_id = a.model_id AND f.repeat = 0
JOIN sample s ON s.sample_id = a.sample_id
JOIN score c ON c.scorer_id = :scorer_id AND c.sample_id = s.sample_id AND c.status = 'ok' AND NOT c.is_stale
WHERE s.dataset_id = :dataset_id
  AND a.model_id = :model_id
  AND a.repeat > 0
  AND a.status = 'ok'
  AND a.context_sha256 = f.context_sha256
ORDER BY s.sample_id, a.repeat
