-- By scorer and dataset: whether no score is stale or unknown, and how many scores are defined where that is known.
CREATE VIEW plumbing.dataset_status AS
SELECT r.scorer_id,
       h.dataset_id,
       bool_and(k.counts IS NOT NULL AND NOT k.counts ? 'stale') AS is_fresh,
       CAST(COALESCE(sum(CAST(k.counts->>'ok' AS bigint)), 0) AS bigint) AS n_defined
FROM scorer r
CROSS JOIN shard h
LEFT JOIN shard_count k
       ON k.scorer_id = r.scorer_id AND k.kind = 'scores' AND k.dataset_id = h.dataset_id AND k.shard = h.shard
      AND k.counted_version = k.version
      AND k.counted_shard_version = h.version
      AND k.rule_sha256 = {rule_by_metric}
GROUP BY r.scorer_id, h.dataset_id
