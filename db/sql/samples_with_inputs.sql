-- Everything a scorer may look at for some samples, and the digest of what it depends on, read in one snapshot.
SELECT s.sample_id,
       s.key,
       s.kind,
       s.system,
       s.text,
       s.question,
       s.answer,
       v.video_id,
       v.status AS video_status,
       v.error AS video_error,
       {input_sha256} AS input_sha256,
       COALESCE(
           (SELECT jsonb_agg(jsonb_build_object('key', r.key, 'text', r.text) ORDER BY r.key COLLATE "C")
            FROM reference r WHERE r.video_id = s.video_id),
           '[]') AS "references"
FROM sample s
JOIN video v USING (video_id)
WHERE s.sample_id = ANY(:sample_ids)
ORDER BY s.sample_id
