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
       CASE WHEN c.input_sha256 = {digest_by_metric} THEN c.value END AS value,
       CASE WHEN c.input_sha256 = {digest_by_metric} THEN c.status ELSE 'stale' END AS status,
       CASE WHEN c.input_sha256 = {digest_by_metric} THEN c.error ELSE {stale_reason} END AS error
FROM score c
JOIN scorer r USING (scorer_id)
JOIN sample s USING (sample_id)
JOIN video v USING (video_id)
