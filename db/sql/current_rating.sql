-- The ratings that count: the sample still has the text that was rated.
CREATE VIEW current_rating AS
SELECT g.sample_id,
       g.rater,
       g.aspect,
       g.value,
       g.extra,
       g.stored_at,
       CASE WHEN c.lowest_is_best THEN COALESCE(c.least + c.most, 0) - g.value ELSE g.value END AS goodness
  FROM rating g
  JOIN sample s ON s.sample_id = g.sample_id AND s.text_sha256 = g.text_sha256
  LEFT JOIN rating_scale c ON c.dataset_id = s.dataset_id AND c.aspect = g.aspect;

COMMENT ON VIEW current_rating IS 'One row per rating of the text that the sample has now; ratings of older texts are in table rating only.';
COMMENT ON COLUMN current_rating.stored_at IS 'When the rating was first stored; a later change of it keeps this time.';
COMMENT ON COLUMN current_rating.rater IS 'Person who rated.';
COMMENT ON COLUMN current_rating.aspect IS 'Aspect that was rated.';
COMMENT ON COLUMN current_rating.value IS 'Rating as it was given: from 1 to 5 (best), or on the scale of table rating_scale.';
COMMENT ON COLUMN current_rating.goodness IS 'Rating turned so that the highest is best: the value, or where the lowest is best, the sum of both ends of the scale minus it.';
COMMENT ON COLUMN current_rating.extra IS 'Own fields of the manifest. For a rating from a browser: when and how it was asked, and in `again` the answer to the repeated question.';
