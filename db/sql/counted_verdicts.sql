    SELECT p.dataset_id,
           p.shard,
           'unfinished' AS status,
           count(*) AS n
    FROM ({pending_verdicts}) p
    GROUP BY p.dataset_id, p.shard
