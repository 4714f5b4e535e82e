-- The ratings that are a random sample of the captions: without those whose captions were chosen, such as for a promise.
-- Statistics take the highest number for the best.
CREATE VIEW random_rating AS
SELECT sample_id, rater, aspect, goodness AS value
  FROM current_rating
 WHERE extra->'to_settle'->>'question' IS NULL;

COMMENT ON VIEW random_rating IS 'One row per rating that statistics may use. Ratings of captions that were chosen, such as for a promise, are left out: they are no random sample.';
COMMENT ON COLUMN random_rating.rater IS 'Person who rated.';
COMMENT ON COLUMN random_rating.aspect IS 'Aspect that was rated.';
COMMENT ON COLUMN random_rating.value IS 'From 1 to 5, or on the scale of table rating_scale; the highest is best, since goodness of current_rating is taken.';
