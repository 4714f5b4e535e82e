-- What a scorer looks at of some samples, and the digest of what it depends on, read in one snapshot.
-- What is not among its inputs is not fetched: CASE leaves the subquery alone.
SELECT s.sample_id,
       s.key,
       s.kind,
       s.system,
       s.text,
       s.question,
       s.answer,
       v.video_id,
       v.status AS video_status,
       v.error AS video_error,
       s.extra->>'parse_error' AS parse_error,
       {input_sha256} AS input_sha256,
       CASE WHEN 'segments' = ANY(:inputs) THEN s.segments END AS segments,
       CASE WHEN CAST(:inputs AS text[]) && ARRAY['references', 'segments'] THEN
           (SELECT jsonb_agg(
                       jsonb_build_object(
                           'key', r.key,
                           'text', r.text,
                           'segments', CASE WHEN 'segments' = ANY(:inputs) THEN r.segments END)
                       ORDER BY r.key COLLATE "C")
            FROM reference r WHERE r.video_id = s.video_id)
       END AS "references",
       CASE WHEN 'keypoints' = ANY(:inputs) THEN
           (SELECT jsonb_agg(
                       jsonb_build_object(
                           'keypoint_id', k.keypoint_id,
                           'key', k.key,
                           'dimension', k.dimension,
                           'text', k.text,
                           'segment_index', k.segment_index)
                       ORDER BY k.key COLLATE "C")
            FROM keypoint k WHERE k.video_id = s.video_id)
       END AS keypoints,
       CASE WHEN 'thresholds' = ANY(:inputs) THEN
           (SELECT jsonb_object_agg(t.dimension, t.value)
            FROM threshold t
            WHERE t.scorer_id = CAST(:scorer_id AS bigint)
              AND t.dataset_id = s.dataset_id
              AND t.scope = 'dataset'
              AND t.method = 'keypoint_labels')
       END AS thresholds
FROM sample s
JOIN video v USING (video_id)
WHERE s.sample_id = ANY(:sample_ids)
ORDER BY s.sample_id
