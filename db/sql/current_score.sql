-- Every score beside what its inputs are now: a score of other inputs is stale and has no value.
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
JOIN video v USING (video_id)
-- OFFSET 0 keeps Postgres from writing the digest into each of the three columns and computing it three times.
CROSS JOIN LATERAL (SELECT c.input_sha256 = {digest_by_metric} AS is_fresh OFFSET 0) i
