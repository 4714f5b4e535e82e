-- Every score of every scorer there ever was, the retired ones included.
CREATE OR REPLACE VIEW score_history AS
SELECT d.name AS dataset,
       s.kind,
       s.key AS sample,
       s.system,
       scorer.metric,
       scorer.scorer_id,
       scorer.status AS scorer_status,
       scorer.code_version,
       c.value,
       c.status,
       c.error,
       c.components,
       c.run_id,
       c.scored_at,
       scorer.models
FROM score c
JOIN scorer USING (scorer_id)
JOIN sample s USING (sample_id)
JOIN dataset d USING (dataset_id)
