-- A scorer's verdict on every keypoint that a source has labelled, with the label.
SELECT s.shard,
       COALESCE(v.extra->>'group_id', v.key) AS "group",
       k.dimension,
       e.probability,
       l.covered
FROM current_label l
JOIN ecs_verdict e USING (keypoint_id, sample_id)
JOIN keypoint k USING (keypoint_id)
JOIN sample s USING (sample_id)
JOIN video v ON v.video_id = s.video_id
WHERE e.scorer_id = :scorer_id
  AND s.dataset_id = :dataset_id
  AND l.source = :source
ORDER BY s.key COLLATE "C", k.key COLLATE "C"
