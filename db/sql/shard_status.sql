-- What is counted in each shard, by scorer, where the count still holds: samples by the status of their score.
-- A missing row means that something has changed since; reelsieve status counts anew.
CREATE VIEW plumbing.shard_status AS
SELECT k.scorer_id,
       k.dataset_id,
       k.shard,
       k.counts
FROM shard_count k
JOIN shard h USING (dataset_id, shard)
JOIN scorer r USING (scorer_id)
WHERE k.kind = 'scores'
  AND k.counted_version = k.version
  AND k.counted_shard_version = h.version
  AND k.rule_sha256 = {rule_by_metric}
