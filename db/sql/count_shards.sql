-- Counts the given shards anew and keeps the counts with the versions of the same snapshot.
-- The placeholder in braces becomes a query for rows (dataset_id, shard, status, n) over `due`, never user input.
WITH due AS (
    SELECT h.dataset_id,
           h.shard,
           h.version AS shard_version,
           COALESCE(k.version, 0) AS version
    FROM shard h
    LEFT JOIN shard_count k
           ON k.scorer_id = :scorer_id AND k.kind = :kind AND k.dataset_id = h.dataset_id AND k.shard = h.shard
    WHERE h.dataset_id = :dataset_id
      AND h.shard = ANY(:shards)),
counted AS ({counted})
INSERT INTO shard_count (scorer_id, kind, dataset_id, shard, version, counted_version, counted_shard_version,
                         rule_sha256, counts)
SELECT :scorer_id,
       :kind,
       d.dataset_id,
       d.shard,
       d.version,
       d.version,
       d.shard_version,
       :rule_sha256,
       COALESCE(jsonb_object_agg(c.status, c.n) FILTER (WHERE c.status IS NOT NULL), '{}')
FROM due d
LEFT JOIN counted c USING (dataset_id, shard)
GROUP BY d.dataset_id, d.shard, d.version, d.shard_version
ORDER BY d.dataset_id, d.shard
ON CONFLICT (scorer_id, kind, dataset_id, shard) DO UPDATE
SET counted_version = EXCLUDED.counted_version,
    counted_shard_version = EXCLUDED.counted_shard_version,
    rule_sha256 = EXCLUDED.rule_sha256,
    counts = EXCLUDED.counts
RETURNING shard, counts
