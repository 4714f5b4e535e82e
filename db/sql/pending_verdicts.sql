-- The captions of some shards whose keypoints a scorer has not verified, or not for their present inputs, or not far enough:
-- a keypoint's lower bound must reach its threshold. A set with fewer verdicts than keypoints has lost one.
-- The placeholder in braces becomes one of the expressions in db/schema/inputs.py, never user input.
SELECT s.sample_id,
       s.dataset_id,
       s.shard
FROM sample s
JOIN video v USING (video_id)
LEFT JOIN verdict_set w ON w.scorer_id = CAST(:scorer_id AS bigint) AND w.sample_id = s.sample_id
WHERE s.dataset_id = :dataset_id
  AND s.shard = ANY(:shards)
  AND s.kind = 'caption'
  AND EXISTS (SELECT 1 FROM keypoint k WHERE k.video_id = s.video_id)
  AND (w.sample_id IS NULL
       OR w.input_sha256 <> {input_sha256}
       OR (w.status = 'ok'
           AND (SELECT count(*) FROM ecs_verdict e WHERE e.scorer_id = w.scorer_id AND e.sample_id = w.sample_id)
               <> (SELECT count(*) FROM keypoint k WHERE k.video_id = s.video_id))
       OR EXISTS (SELECT 1
                  FROM ecs_verdict e
                  JOIN keypoint k USING (keypoint_id)
                  LEFT JOIN threshold_in_force t
                         ON t.scorer_id = e.scorer_id
                        AND t.dataset_id = s.dataset_id
                        AND t.dimension = k.dimension
                  WHERE e.scorer_id = w.scorer_id
                    AND e.sample_id = w.sample_id
                    AND e.is_lower_bound
                    AND (CAST(:default_threshold AS float8) IS NULL
                         OR (e.probability >= COALESCE(t.threshold, CAST(:default_threshold AS float8))) IS NOT TRUE)))
ORDER BY s.sample_id
