-- The labels that count: caption and keypoint still have the texts that were labelled.
CREATE VIEW current_label AS
SELECT l.keypoint_id,
       l.sample_id,
       l.source,
       l.covered,
       l.extra
  FROM keypoint_label l
  JOIN sample s ON s.sample_id = l.sample_id AND s.text_sha256 = l.text_sha256
  JOIN keypoint k ON k.keypoint_id = l.keypoint_id AND sha256(utf8(k.text)) = l.keypoint_sha256;

COMMENT ON VIEW current_label IS 'One row per label whose caption and keypoint still have the texts that were labelled.';
COMMENT ON COLUMN current_label.source IS 'manifest for people''s labels, judge:MODEL for those of a chat model.';
COMMENT ON COLUMN current_label.extra IS 'Own fields of the manifest; from a browser the person and the time; from a chat model the deciding sentence.';
