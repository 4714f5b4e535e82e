-- Shards without a stale score of a scorer: there no score needs to be compared with its inputs.
CREATE VIEW fresh_shard AS
SELECT scorer_id,
       dataset_id,
       shard
FROM shard_status
WHERE NOT counts ? 'stale'
