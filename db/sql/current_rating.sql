-- The ratings that count: the sample still has the text that was rated.
CREATE VIEW current_rating AS
SELECT g.sample_id,
       g.rater,
       g.aspect,
       g.value,
       g.extra,
       g.stored_at
  FROM rating g
  JOIN sample s ON s.sample_id = g.sample_id AND s.text_sha256 = g.text_sha256
