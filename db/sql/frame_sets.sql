-- What became of the frames of some videos under an encoder, where it saw their present content.
SELECT f.video_id,
       f.status,
       f.error
FROM frame_set f
JOIN video v USING (video_id)
WHERE f.encoder_id = %s
  AND f.video_id = ANY(%s)
  AND f.content_sha256 = v.content_sha256
