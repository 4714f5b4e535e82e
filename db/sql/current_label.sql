-- The labels that count: caption and keypoint still have the texts that were labelled.
CREATE VIEW current_label AS
SELECT l.keypoint_id,
       l.sample_id,
       l.source,
       l.covered,
       l.extra
  FROM keypoint_label l
  JOIN sample s ON s.sample_id = l.sample_id AND s.text_sha256 = l.text_sha256
  JOIN keypoint k ON k.keypoint_id = l.keypoint_id AND sha256(utf8(k.text)) = l.keypoint_sha256
