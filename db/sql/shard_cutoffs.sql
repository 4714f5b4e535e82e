-- Of every shard with defined scores their number, and the lowest of the best scores by share.
WITH counted AS (
    SELECT shard,
           count(*) AS n
    FROM current_score
    WHERE scorer_id = :scorer_id
      AND dataset_id = :dataset_id
      AND status = 'ok'
    GROUP BY shard),
ranked AS (
    SELECT shard,
           value,
           row_number() OVER (PARTITION BY shard ORDER BY value DESC) AS place
    FROM current_score
    WHERE scorer_id = :scorer_id
      AND dataset_id = :dataset_id
      AND status = 'ok')
SELECT c.shard,
       c.n,
       s.share,
       r.value
FROM counted c
CROSS JOIN unnest(CAST(:shares AS text[])) s (share)
JOIN ranked r ON r.shard = c.shard AND r.place = GREATEST(1, floor(CAST(s.share AS numeric) * c.n))
ORDER BY c.shard, CAST(s.share AS numeric)
