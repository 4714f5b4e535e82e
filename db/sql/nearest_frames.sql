-- The videos with a frame whose vector has the highest cosine with a given one, with their best frame.
-- Frames of a file that has changed since do not count. Exact: every stored vector is compared. Frames whose vectors
-- are in files come with their distances.
SELECT d.name AS dataset,
       v.key AS video,
       v.video_id,
       n.time_s,
       1 - n.distance AS similarity
FROM (SELECT DISTINCT ON (e.video_id) e.video_id, e.time_s, e.distance
      FROM (SELECT model_id,
                   video_id,
                   CAST(NULL AS bigint) AS file_id,
                   frame_index,
                   time_s,
                   embedding <=> CAST(:vector AS vector) AS distance
            FROM frame_embedding
            WHERE model_id = :model_id
            UNION ALL
            SELECT :model_id, video_id, file_id, frame_index, time_s, distance
            FROM unnest(CAST(:keys AS bigint[]), CAST(:file_ids AS bigint[]), CAST(:distances AS double precision[]),
                        CAST(:frame_indices AS integer[]), CAST(:times_s AS double precision[]))
                 AS near(video_id, file_id, distance, frame_index, time_s)) e
      JOIN frame_set f ON f.model_id = e.model_id AND f.video_id = e.video_id AND f.status = 'ok'
           AND f.file_id IS NOT DISTINCT FROM e.file_id
      JOIN video v ON v.video_id = e.video_id AND v.content_sha256 = f.content_sha256
      WHERE (CAST(:dataset_id AS bigint) IS NULL OR v.dataset_id = :dataset_id)
        AND e.video_id IS DISTINCT FROM :but_video
      ORDER BY e.video_id, e.distance, e.frame_index) n
JOIN video v USING (video_id)
JOIN dataset d ON d.dataset_id = v.dataset_id
WHERE n.distance <> 'NaN'
ORDER BY n.distance, d.name, v.key
LIMIT :limit
