-- The videos whose vector of their present file has the highest cosine with a given one, without the video that it is of.
-- Exact: every stored vector is compared.
SELECT d.name AS dataset,
       v.key AS video,
       1 - (e.embedding <=> CAST(:vector AS vector)) AS similarity
FROM video_embedding e
JOIN video v ON v.video_id = e.video_id AND v.content_sha256 IS NOT DISTINCT FROM e.content_sha256
JOIN dataset d ON d.dataset_id = v.dataset_id
WHERE e.model_id = :model_id
  AND e.video_id <> :video_id
  AND (CAST(:dataset_id AS bigint) IS NULL OR v.dataset_id = :dataset_id)
ORDER BY e.embedding <=> CAST(:vector AS vector), d.name, v.key
LIMIT :limit
