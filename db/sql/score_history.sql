-- Every score that was ever stored: present ones, those of retired scorers, and those that were replaced.
-- `changed_because` is why a value is no longer valid: the inputs that changed, the scorer, a rule.
CREATE VIEW score_history AS
SELECT d.name AS dataset,
       v.key AS video,
       s.kind,
       s.key AS sample,
       s.system,
       r.metric,
       r.scorer_id,
       r.status AS scorer_status,
       r.code_version,
       c.value,
       c.status,
       c.error,
       c.components,
       c.run_id,
       c.scored_at,
       c.replaced_at,
       c.changed_because,
       r.models,
       c.sample_id
FROM (SELECT c.scorer_id,
             c.sample_id,
             c.value,
             c.status,
             c.error,
             c.components,
             c.run_id,
             c.scored_at,
             CAST(NULL AS timestamptz) AS replaced_at,
             CASE WHEN r.status = 'retired' THEN 'scorer'
                  WHEN c.is_stale THEN
                      COALESCE((SELECT string_agg(n.key, ', ' ORDER BY n.key)
                                FROM jsonb_each_text({marks_by_metric}) n
                                WHERE n.value IS DISTINCT FROM c.input_marks->>n.key),
                               'inputs')
             END AS changed_because
      FROM score c
      JOIN scorer r USING (scorer_id)
      JOIN sample s USING (sample_id)
      JOIN video v USING (video_id)
      UNION ALL
      SELECT scorer_id, sample_id, value, status, error, components, run_id, scored_at, replaced_at, reason
      FROM past_score) c
JOIN scorer r USING (scorer_id)
JOIN sample s USING (sample_id)
JOIN video v USING (video_id)
JOIN dataset d ON d.dataset_id = s.dataset_id;

COMMENT ON VIEW score_history IS 'One row per score ever stored: present scores, scores of retired scorers, and scores that were replaced.';
COMMENT ON COLUMN score_history.scorer_status IS 'active, candidate or retired.';
COMMENT ON COLUMN score_history.code_version IS 'Version of the metric''s code.';
COMMENT ON COLUMN score_history.value IS 'The score as it was; NULL where it was undefined.';
COMMENT ON COLUMN score_history.status IS 'ok, or why there was no value.';
COMMENT ON COLUMN score_history.error IS 'The reason in a sentence; NULL where the status was ok.';
COMMENT ON COLUMN score_history.replaced_at IS 'When another score replaced this one; NULL for a present score.';
COMMENT ON COLUMN score_history.changed_because IS 'Why the score is no longer valid: text, references, video, segments, keypoints, thresholds, inputs, tried again, rule, scorer; NULL if it is valid.';
COMMENT ON COLUMN score_history.models IS 'The models by role, each with model_id (its name), revision and params.';
