-- Of some videos, those that decode and whose present content an encoder has not seen or failed on.
SELECT v.video_id,
       v.key,
       v.uri,
       v.size_bytes,
       v.mtime_ns,
       v.content_sha256,
       v.duration_s
FROM video v
LEFT JOIN frame_set f ON f.encoder_id = CAST(:encoder_id AS bigint) AND f.video_id = v.video_id
WHERE v.video_id = ANY(:video_ids)
  AND v.status IN ('ok', 'damaged')
  AND (f.video_id IS NULL OR f.status = 'failed' OR f.content_sha256 <> v.content_sha256)
ORDER BY v.video_id
