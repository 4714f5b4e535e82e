-- Verdicts on the given samples, from sets made for their present inputs; a set without verdicts gives one row.
-- A set with fewer verdicts than its video has keypoints has lost one, and is left out.
-- Materialized, so that the digest is computed once per sample and not once per verdict.
WITH present AS MATERIALIZED (
    SELECT w.*
    FROM verdict_set w
    JOIN sample s USING (sample_id)
    JOIN video v USING (video_id)
    WHERE w.scorer_id = CAST(:scorer_id AS bigint)
      AND w.sample_id = ANY(:sample_ids)
      AND w.input_sha256 = {input_sha256}
      AND (w.status <> 'ok'
           OR (SELECT count(*) FROM ecs_verdict e WHERE e.scorer_id = w.scorer_id AND e.sample_id = w.sample_id)
              = (SELECT count(*) FROM keypoint k WHERE k.video_id = s.video_id)))
SELECT w.sample_id,
       w.input_sha256,
       w.n_sentences,
       w.status,
       w.error,
       e.keypoint_id,
       e.probability,
       e.sentence_index,
       e.sentence,
       e.n_passes
FROM present w
LEFT JOIN (ecs_verdict e JOIN keypoint k USING (keypoint_id))
       ON e.scorer_id = w.scorer_id AND e.sample_id = w.sample_id
ORDER BY w.sample_id, k.key COLLATE "C"
