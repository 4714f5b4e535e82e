-- Status of the frames of the given videos under an encoder that has encoded their present file.
SELECT f.video_id,
       f.status,
       f.error,
       f.n_frames,
       f.reader,
       f.n_sampled,
       f.file_id,
       f.place
FROM frame_set f
JOIN video v USING (video_id)
WHERE f.model_id = %s
  AND f.video_id = ANY(%s)
  AND f.content_sha256 = v.content_sha256
