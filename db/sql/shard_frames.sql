-- The videos of a shard that have samples and decode, by what became of their frames under an encoder.
SELECT count(*) AS n_videos,
       count(*) FILTER (WHERE f.video_id IS NULL OR f.content_sha256 <> v.content_sha256) AS n_missing,
       count(*) FILTER (WHERE f.status = 'failed') AS n_failed,
       count(*) FILTER (WHERE f.status = 'unreadable') AS n_unreadable,
       COALESCE(sum(f.n_sampled), 0) AS n_sampled,
       COALESCE(
           sum((SELECT count(*)
                FROM frame_embedding e
                WHERE e.encoder_id = f.encoder_id AND e.video_id = f.video_id)),
           0) AS n_stored
FROM video v
LEFT JOIN frame_set f ON f.encoder_id = CAST(:encoder_id AS bigint) AND f.video_id = v.video_id
WHERE v.dataset_id = :dataset_id
  AND v.shard = :shard
  AND v.status IN ('ok', 'damaged')
  AND EXISTS (SELECT 1 FROM sample s WHERE s.video_id = v.video_id)
