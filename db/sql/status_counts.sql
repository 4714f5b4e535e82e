-- The samples of a dataset, or of one of its shards, by the status of their score: kept counts where they hold.
SELECT status,
       CAST(sum(n) AS bigint) AS n
FROM (SELECT e.status,
             CAST(e.n AS bigint) AS n
      FROM plumbing.shard_status k
      CROSS JOIN jsonb_each_text(k.counts) e (status, n)
      WHERE k.scorer_id = :scorer_id
        AND k.dataset_id = :dataset_id
        AND (CAST(:shard AS integer) IS NULL OR k.shard = :shard)
      UNION ALL
      SELECT counted.status,
             counted.n
      -- OFFSET 0 keeps Postgres from counting samples before it knows which shards are unknown.
      FROM (SELECT scorer_id,
                   dataset_id,
                   shard
            FROM plumbing.unknown_shard
            WHERE scorer_id = :scorer_id
              AND dataset_id = :dataset_id
              AND (CAST(:shard AS integer) IS NULL OR shard = :shard)
            OFFSET 0) u
      CROSS JOIN LATERAL (
          SELECT COALESCE(c.status, 'unscored') AS status,
                 count(*) AS n
          FROM sample s
          LEFT JOIN current_score c ON c.scorer_id = u.scorer_id AND c.sample_id = s.sample_id
          WHERE s.dataset_id = u.dataset_id
            AND s.shard = u.shard
          GROUP BY 1) counted) of_shards
GROUP BY status
ORDER BY status
