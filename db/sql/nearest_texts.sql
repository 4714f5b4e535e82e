-- The captions whose vectors have the highest cosine with a given one; the vector is that of the whole text.
-- Exact: every stored vector is compared. A vector without a direction has no distance and is left out.
SELECT d.name AS dataset,
       v.key AS video,
       s.key AS sample,
       s.sample_id,
       s.system,
       1 - n.distance AS similarity,
       s.text
FROM (SELECT s.sample_id, e.embedding <=> CAST(:vector AS vector) AS distance
      FROM sample s
      JOIN text_embedding e ON e.model_id = :model_id AND e.text_sha256 = s.text_sha256
      WHERE s.kind = 'caption'
        AND (CAST(:dataset_id AS bigint) IS NULL OR s.dataset_id = :dataset_id)
        AND s.video_id IS DISTINCT FROM :but_video) n
JOIN sample s USING (sample_id)
JOIN video v USING (video_id)
JOIN dataset d ON d.dataset_id = s.dataset_id
WHERE n.distance <> 'NaN'
ORDER BY n.distance, d.name, s.key
LIMIT :limit
