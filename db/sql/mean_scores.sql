-- Mean of a scorer's defined scores, by kind of sample, on a dataset or on one of its shards, with its standard error.
-- The samples of a video resemble each other, so the error is that of a ratio of two totals over independent videos.
WITH of_videos AS MATERIALIZED (
    SELECT s.kind,
           s.video_id,
           sum(c.value) AS total,
           count(*) AS n,
           min(c.value) AS lowest,
           max(c.value) AS highest
    FROM current_score c
    JOIN sample s USING (sample_id)
    WHERE c.scorer_id = :scorer_id
      AND c.dataset_id = :dataset_id
      AND (CAST(:shard AS integer) IS NULL OR c.shard = :shard)
      AND c.status = 'ok'
    GROUP BY s.kind, s.video_id),
of_kinds AS (
    SELECT kind,
           CAST(sum(n) AS bigint) AS n,
           count(*) AS n_videos,
           sum(total) / CAST(sum(n) AS double precision) AS mean,
           min(lowest) < max(highest) AS varies
    FROM of_videos
    GROUP BY kind)
SELECT k.kind,
       k.n,
       k.n_videos,
       k.mean,
       k.varies,
       CASE WHEN k.n_videos > 1
            THEN sqrt(sum(power(v.total - v.n * k.mean, 2)) * k.n_videos / (k.n_videos - 1)) / k.n
       END AS standard_error
FROM of_kinds k
JOIN of_videos v USING (kind)
GROUP BY k.kind, k.n, k.n_videos, k.mean, k.varies
ORDER BY k.kind
