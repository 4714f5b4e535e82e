-- Every score beside what its inputs are now: a score of other inputs is stale and has no value.
-- In a fresh shard nothing is compared; elsewhere the digest is computed for each score that is read.
CREATE VIEW current_score AS
SELECT c.scorer_id,
       c.sample_id,
       r.metric,
       s.dataset_id,
       s.shard,
       s.kind,
       s.key,
       s.system,
       s.text,
       CASE WHEN i.is_fresh THEN c.value END AS value,
       CASE WHEN i.is_fresh THEN c.status ELSE 'stale' END AS status,
       CASE WHEN i.is_fresh THEN c.error ELSE {stale_reason} END AS error
FROM score c
JOIN scorer r USING (scorer_id)
JOIN sample s USING (sample_id)
-- OFFSET 0 keeps Postgres from writing the comparison into each of the three columns and making it three times.
CROSS JOIN LATERAL (
    SELECT CASE
               WHEN c.scorer_id = ANY(ARRAY(SELECT f.scorer_id FROM plumbing.fresh_scorer f))
               THEN true
               WHEN (c.scorer_id, s.dataset_id, s.shard) IN (SELECT f.scorer_id, f.dataset_id, f.shard FROM plumbing.fresh_shard f)
               THEN true
               ELSE c.input_sha256 = (SELECT {digest_by_metric} FROM video v WHERE v.video_id = s.video_id)
           END AS is_fresh
    OFFSET 0) i
