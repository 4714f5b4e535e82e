-- The ratings that are a random sample of the captions. `reelsieve rate --to-settle` draws captions with different
-- chances; of its ratings only those count that a draw with equal chances by the same random numbers would have.
-- Statistics take the highest number for the best.
CREATE VIEW random_rating AS
WITH drawn AS (
    SELECT g.*,
           s.dataset_id,
           g.extra->'to_settle'->>'question' AS question,
           CASE WHEN jsonb_typeof(g.extra->'to_settle'->'share') = 'number'
                THEN CAST(g.extra->'to_settle'->'share' AS float8) END AS share,
           CASE WHEN jsonb_typeof(g.extra->'to_settle'->'key') = 'number'
                THEN CAST(g.extra->'to_settle'->'key' AS float8) END AS key,
           CASE WHEN jsonb_typeof(g.extra->'to_settle'->'least') = 'number'
                THEN CAST(g.extra->'to_settle'->'least' AS float8) END AS least
      FROM current_rating g JOIN sample s USING (sample_id)
     WHERE g.extra->'to_settle'->>'question' IS NOT NULL
)
SELECT g.sample_id, g.rater, g.aspect, g.goodness AS value
  FROM current_rating g
 WHERE g.extra->'to_settle'->>'question' IS NULL
UNION ALL
SELECT d.sample_id, d.rater, d.aspect, d.goodness
  FROM (SELECT drawn.*,
               max(key) OVER (PARTITION BY dataset_id, aspect, question, extra->>'seed', least) AS last_key
          FROM drawn) d
 WHERE d.key * d.share < d.least * d.last_key;

COMMENT ON VIEW random_rating IS 'One row per rating that statistics may use. Of the captions that reelsieve rate --to-settle drew, it has only those that form a random sample.';
COMMENT ON COLUMN random_rating.rater IS 'Person who rated.';
COMMENT ON COLUMN random_rating.aspect IS 'Aspect that was rated.';
COMMENT ON COLUMN random_rating.value IS 'From 1 to 5, or on the scale of table rating_scale; the highest is best, since goodness of current_rating is taken.';
