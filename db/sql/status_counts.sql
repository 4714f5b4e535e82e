-- The samples of a dataset, or of one of its shards, by the status of their score; those without one are unscored.
WITH counted AS (
    SELECT status,
           sum(n) AS n
    FROM shard_count
    WHERE scorer_id = :scorer_id
      AND dataset_id = :dataset_id
      AND (CAST(:shard AS integer) IS NULL OR shard = :shard)
    GROUP BY status
    HAVING sum(n) > 0),
every AS (
    SELECT COALESCE(sum(n_samples), 0) AS n
    FROM shard
    WHERE dataset_id = :dataset_id
      AND (CAST(:shard AS integer) IS NULL OR shard = :shard))
SELECT status,
       CAST(n AS bigint) AS n
FROM (SELECT status, n FROM counted
      UNION ALL
      SELECT 'unscored', every.n - COALESCE((SELECT sum(n) FROM counted), 0) FROM every) of_all
WHERE n > 0
ORDER BY status
