-- The decision of an active scorer on every keypoint that the manifest labels, with the label.
SELECT r.metric,
       r.scorer_id,
       COALESCE(v.extra->>'group_id', v.key) AS "group",
       k.dimension,
       k.covered,
       k.label,
       k.is_stale,
       (SELECT t.details->>'videos'
        FROM keypoint_threshold t
        WHERE t.scorer_id = r.scorer_id
          AND t.dataset_id = s.dataset_id
          AND t.dimension = k.dimension
          AND t.shard IS NULL
          AND t.method = :method_labels
        LIMIT 1) AS chosen_on
FROM keypoint_verdicts k
JOIN sample s USING (sample_id)
JOIN video v USING (video_id)
JOIN ecs_verdict e USING (sample_id, keypoint_id)
JOIN scorer r ON r.scorer_id = e.scorer_id AND r.status = 'active'
WHERE s.dataset_id = :dataset_id
  AND k.label IS NOT NULL
  -- Only the few captions with a label: with a million verdicts this takes a hundredth of the time.
  AND k.sample_id = ANY (ARRAY(SELECT l.sample_id FROM keypoint_label l WHERE l.source = :source))
ORDER BY s.key COLLATE "C", k.keypoint COLLATE "C"
