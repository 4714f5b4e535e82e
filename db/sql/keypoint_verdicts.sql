-- One row per keypoint that an active scorer has verified on a caption: its verdict, and the label of a person.
-- The threshold is the one by which the stored score was made; without a score there is none yet.
-- A verdict on a text that has changed since is marked as stale and decides nothing.
CREATE VIEW keypoint_verdicts AS
SELECT d.name AS dataset,
       s.shard,
       v.key AS video,
       s.key AS sample,
       s.system,
       k.dimension,
       k.key AS keypoint,
       k.text AS keypoint_text,
       k.segment_index,
       e.probability,
       decided.threshold,
       CASE WHEN decided.threshold IS NULL OR w.input_sha256 <> {verdict_digest} THEN NULL
            WHEN e.probability IS NULL AND w.status = 'ok' THEN false
            ELSE e.probability >= decided.threshold
       END AS covered,
       e.sentence_index,
       e.sentence,
       w.input_sha256 <> {verdict_digest} AS is_stale,
       l.covered AS label,
       e.sample_id,
       e.keypoint_id
FROM ecs_verdict e
JOIN scorer ON scorer.scorer_id = e.scorer_id AND scorer.status = 'active'
JOIN verdict_set w ON w.scorer_id = e.scorer_id AND w.sample_id = e.sample_id
JOIN keypoint k ON k.keypoint_id = e.keypoint_id
JOIN sample s ON s.sample_id = e.sample_id
JOIN video v ON v.video_id = s.video_id
JOIN dataset d ON d.dataset_id = s.dataset_id
LEFT JOIN score c ON c.scorer_id = e.scorer_id AND c.sample_id = e.sample_id
LEFT JOIN LATERAL (SELECT CAST(c.components->'thresholds'->>k.dimension AS float8) AS threshold) decided ON true
LEFT JOIN current_label l
       ON l.keypoint_id = e.keypoint_id AND l.sample_id = e.sample_id AND l.source = '{label_source}';

COMMENT ON VIEW keypoint_verdicts IS 'One row per keypoint that the active scorer verified on a caption.';
COMMENT ON COLUMN keypoint_verdicts.dimension IS 'Kind of keypoint, such as shooting_style.';
COMMENT ON COLUMN keypoint_verdicts.keypoint_text IS 'The keypoint, as a sentence.';
COMMENT ON COLUMN keypoint_verdicts.probability IS 'Probability that the caption covers the keypoint, from 0 to 1.';
COMMENT ON COLUMN keypoint_verdicts.threshold IS 'Probability from which the stored score counts the keypoint as covered; NULL if there is no score.';
COMMENT ON COLUMN keypoint_verdicts.covered IS 'Whether the score counts the keypoint as covered; NULL if there is no threshold or the verdict is stale.';
COMMENT ON COLUMN keypoint_verdicts.sentence_index IS 'Place of the deciding sentence in the caption, from 0.';
COMMENT ON COLUMN keypoint_verdicts.sentence IS 'The sentence of the caption that decided.';
COMMENT ON COLUMN keypoint_verdicts.is_stale IS 'Whether caption or keypoints changed since the caption was verified.';
COMMENT ON COLUMN keypoint_verdicts.label IS 'Whether the caption covers the keypoint, as a person labelled the present texts; NULL without a label.';
