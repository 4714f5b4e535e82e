-- The highest cosine of each caption's whole text with a reference of its video, by the vectors of one encoder, and the
-- key of that reference. A caption counts only where it and all references of its video have a vector. The cosine with
-- a vector that has no direction is NaN, which is greater than every number.
SELECT s.sample_id,
       max(1 - near.distance) AS cosine,
       (array_agg(r.key ORDER BY near.distance, r.key COLLATE "C"))[1] AS reference
FROM sample s
JOIN text_embedding own ON own.model_id = CAST(:model_id AS bigint) AND own.text_sha256 = s.text_sha256
JOIN reference r ON r.video_id = s.video_id
LEFT JOIN text_embedding theirs ON theirs.model_id = CAST(:model_id AS bigint) AND theirs.text_sha256 = r.text_sha256
CROSS JOIN LATERAL (SELECT own.embedding <=> theirs.embedding AS distance OFFSET 0) near
WHERE s.sample_id = ANY (:ids)
  AND s.kind = 'caption'
GROUP BY s.sample_id
HAVING bool_and(near.distance IS NOT NULL)
