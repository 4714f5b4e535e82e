-- The shards that have samples: what was last counted in them, or NULL where something has changed since.
SELECT h.dataset_id,
       h.shard,
       CASE WHEN k.counted_version = k.version
             AND k.counted_shard_version = h.version
             AND k.rule_sha256 = :rule_sha256 THEN k.counts
       END AS counts
FROM shard h
LEFT JOIN shard_count k
       ON k.scorer_id = :scorer_id AND k.kind = :kind AND k.dataset_id = h.dataset_id AND k.shard = h.shard
WHERE h.dataset_id = ANY(:dataset_ids)
ORDER BY h.dataset_id, h.shard
