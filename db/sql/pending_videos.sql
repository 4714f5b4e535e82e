-- The given videos that decode and whose present content an encoder has not seen, or has failed on.
SELECT v.video_id,
       v.key,
       v.uri,
       v.size_bytes,
       v.mtime_ns,
       v.ctime_ns,
       v.inode,
       v.etag,
       v.member_offset,
       v.content_sha256,
       v.duration_s,
       v.n_frames,
       v.width,
       v.height
FROM video v
LEFT JOIN frame_set f ON f.model_id = CAST(:model_id AS bigint) AND f.video_id = v.video_id
WHERE v.video_id = ANY(:video_ids)
  AND v.status IN ('ok', 'damaged')
  AND (f.video_id IS NULL OR f.status = 'failed' OR f.content_sha256 <> v.content_sha256)
ORDER BY v.video_id
