-- The given samples with the inputs of a scorer and the digest of these inputs, read in one snapshot.
-- The placeholders in braces become expressions of db/schema/inputs.py, never user input.
SELECT s.sample_id,
       d.name AS dataset,
       s.key,
       s.kind,
       s.system,
       s.text,
       s.question,
       s.answer,
       s.video_id,
       {input_sha256} AS input_sha256,
       {input_marks} AS input_marks{values}
FROM sample s
JOIN video v USING (video_id)
JOIN dataset d ON d.dataset_id = s.dataset_id
WHERE s.sample_id = ANY(:sample_ids)
ORDER BY s.sample_id
