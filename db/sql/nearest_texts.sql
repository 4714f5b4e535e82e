-- The captions whose vectors have the highest cosine with a given one; the vector is that of the whole text.
-- Exact: every stored vector is compared. A vector without a direction has no distance and is left out. Texts whose
-- vectors are in files come with their distances.
SELECT d.name AS dataset,
       v.key AS video,
       s.key AS sample,
       s.sample_id,
       s.system,
       1 - n.distance AS similarity,
       s.text
FROM (SELECT s.sample_id, e.distance
      FROM sample s
      JOIN (SELECT text_sha256, embedding <=> CAST(:vector AS vector) AS distance
            FROM text_embedding
            WHERE model_id = :model_id AND embedding IS NOT NULL
            UNION ALL
            SELECT text_sha256, near.distance
            FROM unnest(CAST(:keys AS bytea[]), CAST(:file_ids AS bigint[]), CAST(:distances AS double precision[]))
                 AS near(text_sha256, file_id, distance)
            JOIN text_embedding t USING (text_sha256, file_id)
            WHERE t.model_id = :model_id) e USING (text_sha256)
      WHERE s.kind = 'caption'
        AND (CAST(:dataset_id AS bigint) IS NULL OR s.dataset_id = :dataset_id)
        AND s.video_id IS DISTINCT FROM :but_video) n
JOIN sample s USING (sample_id)
JOIN video v USING (video_id)
JOIN dataset d ON d.dataset_id = s.dataset_id
WHERE n.distance <> 'NaN'
ORDER BY n.distance, d.name, s.key
LIMIT :limit
