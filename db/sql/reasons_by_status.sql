-- The samples of a shard by kind and status of their score, most frequent first, with the commonest reason.
SELECT s.kind,
       COALESCE(c.status, 'unscored') AS status,
       count(*) AS n,
       mode() WITHIN GROUP (ORDER BY c.error) AS reason
FROM sample s
LEFT JOIN current_score c ON c.scorer_id = :scorer_id AND c.sample_id = s.sample_id
WHERE s.dataset_id = :dataset_id
  AND s.shard = :shard
GROUP BY 1, 2
ORDER BY n DESC, 1, 2
