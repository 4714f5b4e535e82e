-- Counts over the given videos that decode, by the status of their frames under an encoder.
SELECT count(*) AS n_videos,
       count(*) FILTER (WHERE f.video_id IS NULL OR f.content_sha256 <> v.content_sha256) AS n_missing,
       count(*) FILTER (WHERE f.status = 'failed') AS n_failed,
       count(*) FILTER (WHERE f.status = 'unreadable') AS n_unreadable,
       COALESCE(sum(f.n_sampled), 0) AS n_sampled,
       COALESCE(
           sum(CASE WHEN f.file_id IS NOT NULL THEN f.n_sampled
                    ELSE (SELECT count(*)
                          FROM frame_embedding e
                          WHERE e.model_id = f.model_id AND e.video_id = f.video_id) END),
           0) AS n_stored
FROM video v
LEFT JOIN frame_set f ON f.model_id = CAST(:model_id AS bigint) AND f.video_id = v.video_id
WHERE v.video_id = ANY(:video_ids)
  AND v.status IN ('ok', 'damaged')
