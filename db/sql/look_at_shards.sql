-- Counts the given shards and keeps nothing: for scores that depend on something that no trigger watches.
-- The placeholder in braces becomes a query for rows (dataset_id, shard, status, n) over `due`, never user input.
WITH due AS (
    SELECT dataset_id,
           shard
    FROM shard
    WHERE dataset_id = :dataset_id
      AND shard = ANY(:shards)),
counted AS ({counted})
SELECT shard,
       jsonb_object_agg(status, n) AS counts
FROM counted
GROUP BY shard
