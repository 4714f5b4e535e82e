-- Shards without a stale score of a scorer: there no score needs to be compared with its inputs.
CREATE VIEW plumbing.fresh_shard AS
SELECT scorer_id,
       dataset_id,
       shard
FROM plumbing.shard_status
WHERE NOT counts ? 'stale'
