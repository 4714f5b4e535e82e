-- Every score of a scorer; one whose inputs have changed since is stale and has no value.
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
       CASE WHEN NOT c.is_stale THEN c.value END AS value,
       CASE WHEN c.is_stale THEN 'stale' ELSE c.status END AS status,
       CASE WHEN c.is_stale THEN {stale_reason} ELSE c.error END AS error
FROM score c
JOIN scorer r USING (scorer_id)
JOIN sample s USING (sample_id)
