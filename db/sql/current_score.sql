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
JOIN sample s USING (sample_id);

COMMENT ON VIEW current_score IS 'One row per score of any scorer, retired ones too; a stale one has no value. Joins table score by its key.';
COMMENT ON COLUMN current_score.key IS 'Key of the sample, the caption_id or qa_id of the manifest.';
COMMENT ON COLUMN current_score.text IS 'The caption; of a question-answer pair, question and answer together.';
COMMENT ON COLUMN current_score.value IS 'The score; NULL where it is undefined or stale.';
COMMENT ON COLUMN current_score.status IS 'ok, stale, or why there is no value.';
COMMENT ON COLUMN current_score.error IS 'The reason in a sentence; NULL where the status is ok.';
