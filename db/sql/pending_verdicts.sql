-- The captions of some shards whose keypoints a scorer has not verified, or not for their present inputs.
-- A set with fewer verdicts than keypoints has lost one.
-- Verdicts and keypoints are counted before they are joined: a look for every caption would take many times as long.
-- The placeholder in braces becomes one of the expressions in db/schema/inputs.py, never user input.
WITH chosen AS (
    SELECT s.sample_id,
           s.dataset_id,
           s.shard,
           s.video_id,
           w.status,
           w.sample_id IS NULL OR w.input_sha256 <> {input_sha256} AS is_changed
    FROM sample s
    JOIN video v USING (video_id)
    LEFT JOIN verdict_set w ON w.scorer_id = CAST(:scorer_id AS bigint) AND w.sample_id = s.sample_id
    WHERE s.dataset_id = :dataset_id
      AND s.shard = ANY(:shards)
      AND s.kind = 'caption'),
keypoints AS (
    SELECT video_id,
           count(*) AS n
    FROM keypoint
    WHERE video_id IN (SELECT video_id FROM chosen)
    GROUP BY video_id),
verdicts AS (
    SELECT c.sample_id,
           count(*) AS n
    FROM chosen c
    JOIN ecs_verdict e ON e.scorer_id = CAST(:scorer_id AS bigint) AND e.sample_id = c.sample_id
    GROUP BY c.sample_id)
SELECT c.sample_id,
       c.dataset_id,
       c.shard
FROM chosen c
JOIN keypoints k USING (video_id)
LEFT JOIN verdicts e ON e.sample_id = c.sample_id
WHERE c.is_changed
   OR (c.status = 'ok' AND e.n IS DISTINCT FROM k.n)
ORDER BY c.sample_id
