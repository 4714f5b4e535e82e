-- The thresholds on the scores of active scorers over whole datasets, for captions and for question-answer pairs. A
-- natural join with sample_scores is by dataset and kind, and with current_score by dataset, kind, metric and scorer.
CREATE VIEW dataset_thresholds AS
SELECT d.name AS dataset,
       r.metric,
       t.kind,
       t.objective,
       t.at_least,
       t.low,
       t.high,
       t.n,
       t.n_kept,
       t.n_good,
       t.method,
       t.details,
       t.created_at AS chosen_at,
       t.scorer_id,
       t.dataset_id
FROM score_threshold t
JOIN scorer r ON r.scorer_id = t.scorer_id AND r.status = 'active'
JOIN dataset d ON d.dataset_id = t.dataset_id
WHERE t.shard IS NULL;

COMMENT ON VIEW dataset_thresholds IS 'One row per threshold on a metric''s scores over a whole dataset, such as that of the best eighth; joins sample_scores by dataset and kind.';
COMMENT ON COLUMN dataset_thresholds.kind IS 'caption, or qa for question-answer pairs; every kind has its own thresholds.';
COMMENT ON COLUMN dataset_thresholds.objective IS 'Purpose, as recipes name it: keep 0.125 keeps the best eighth, good overall the captions that people find good.';
COMMENT ON COLUMN dataset_thresholds.low IS 'Lower end of the threshold''s 95 % interval; NULL where method is quantile, or the interval is undefined.';
COMMENT ON COLUMN dataset_thresholds.high IS 'Upper end of the threshold''s 95 % interval; NULL where method is quantile, or the interval is undefined.';
COMMENT ON COLUMN dataset_thresholds.n IS 'Number of scores that the threshold was computed from.';
COMMENT ON COLUMN dataset_thresholds.method IS 'quantile (of the scores), or ratings (captions that people find good).';
COMMENT ON COLUMN dataset_thresholds.details IS 'Where method is ratings: aspect, lowest rating of a good sample (by goodness in current_rating), shares of good and other samples that pass, Youden J on other videos with that of simple scores.';
COMMENT ON COLUMN dataset_thresholds.chosen_at IS 'When the row was computed.';
