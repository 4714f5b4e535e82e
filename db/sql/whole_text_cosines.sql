-- The highest cosine of each sample's whole text with a reference of its video, by the vectors of one encoder.
-- A sample counts only where it and all references of its video have a vector with a direction.
SELECT s.sample_id,
       max(1 - (own.embedding <=> theirs.embedding)) AS cosine
FROM sample s
JOIN text_embedding own ON own.model_id = :model_id AND own.text_sha256 = s.text_sha256
JOIN reference r ON r.video_id = s.video_id
LEFT JOIN text_embedding theirs ON theirs.model_id = :model_id AND theirs.text_sha256 = r.text_sha256
WHERE s.sample_id = ANY (:ids)
  AND s.kind = 'caption'
GROUP BY s.sample_id
HAVING bool_and(COALESCE(own.embedding <=> theirs.embedding, 'NaN') <> 'NaN')
