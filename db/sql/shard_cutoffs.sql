-- For every shard with scores of a kind in table defined: their number, the lowest of the best scores by share, and how
-- many scores are at least as high.
SELECT r.shard,
       r.n,
       s.share,
       r.value,
       r.n_kept
FROM (SELECT shard,
             value,
             row_number() OVER (PARTITION BY shard ORDER BY value DESC) AS place,
             count(*) OVER (PARTITION BY shard ORDER BY value DESC) AS n_kept,
             count(*) OVER (PARTITION BY shard) AS n
      FROM defined
      WHERE kind = :kind) r
JOIN unnest(CAST(:shares AS text[])) s (share) ON r.place = GREATEST(1, floor(CAST(s.share AS numeric) * r.n))
ORDER BY r.shard, CAST(s.share AS numeric)
