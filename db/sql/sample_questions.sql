-- One row per kept question of QEVA's active scorer about a caption, with the answer where there is one.
-- A question about a video has a row for every caption of the video; the models of a scorer are rows of table model.
CREATE VIEW sample_questions AS
SELECT d.name AS dataset,
       s.shard,
       v.key AS video,
       s.key AS sample,
       s.system,
       t.dimension,
       q.position,
       q.kind AS form,
       q.category,
       q.text AS question,
       q.choices,
       q.answer AS right_answer,
       a.normalised AS answer,
       CASE WHEN a.status = 'abstain' THEN false ELSE a.correct END AS correct,
       a.status AS answer_status,
       a.reason,
       a.evidence,
       (SELECT c.status = 'stale' FROM current_score c WHERE c.scorer_id = r.scorer_id AND c.sample_id = s.sample_id)
           AS is_stale,
       s.sample_id,
       q.question_id
FROM scorer r
JOIN model w
  ON w.name = r.models->'questions'->>'model_id'
 AND w.revision = r.models->'questions'->>'revision'
 AND w.params = r.models->'questions'->'params'
JOIN model m
  ON m.name = r.models->'answers'->>'model_id'
 AND m.revision = r.models->'answers'->>'revision'
 AND m.params = r.models->'answers'->'params'
JOIN qeva_question_set t ON t.model_id = w.model_id
JOIN qeva_question q ON q.question_set_id = t.question_set_id AND q.decision = 'keep'
JOIN sample s
  ON s.video_id = t.video_id
 AND s.kind = 'caption'
 AND (t.sample_id IS NULL OR t.sample_id = s.sample_id)
JOIN video v ON v.video_id = s.video_id
JOIN dataset d ON d.dataset_id = s.dataset_id
LEFT JOIN qeva_answer a ON a.question_id = q.question_id AND a.sample_id = s.sample_id AND a.model_id = m.model_id
WHERE r.metric = 'qeva'
  AND r.status = 'active';

COMMENT ON VIEW sample_questions IS 'One row per kept question of QEVA''s active scorer about a caption.';
COMMENT ON COLUMN sample_questions.dimension IS 'coverage (about the video, answered from the caption), factuality (about the caption, answered from the video), or chronology.';
COMMENT ON COLUMN sample_questions.position IS 'Place of the question in its dimension, from 0.';
COMMENT ON COLUMN sample_questions.form IS 'Form of the question: open, yes_no, choice or order.';
COMMENT ON COLUMN sample_questions.question IS 'The question.';
COMMENT ON COLUMN sample_questions.right_answer IS 'The right answer to the question.';
COMMENT ON COLUMN sample_questions.answer IS 'The answer as it was parsed; NULL if there is none.';
COMMENT ON COLUMN sample_questions.correct IS 'Whether the answer is right; an abstention is wrong. NULL if that could not be decided, or there is no answer.';
COMMENT ON COLUMN sample_questions.answer_status IS 'ok, abstain, malformed, refused or error; NULL where the question is not answered yet.';
COMMENT ON COLUMN sample_questions.reason IS 'Why there is no answer, or the judge''s explanation.';
COMMENT ON COLUMN sample_questions.is_stale IS 'Whether something changed since the sample was scored; NULL where it has no score.';
COMMENT ON COLUMN sample_questions.question_id IS 'Number of the question, for joins with qeva_question and qeva_answer.';
