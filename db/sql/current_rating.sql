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
  LEFT JOIN rating_scale c ON c.dataset_id = s.dataset_id AND c.aspect = g.aspect
