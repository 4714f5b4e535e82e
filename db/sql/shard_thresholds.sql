-- The thresholds on the scores of active scorers within every shard, for captions and for question-answer pairs. A
-- natural join with sample_scores is by dataset, shard and kind, and with current_score by dataset, shard, kind, metric
-- and scorer.
CREATE VIEW shard_thresholds AS
SELECT d.name AS dataset,
       t.shard,
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
WHERE t.shard IS NOT NULL;

COMMENT ON VIEW shard_thresholds IS 'One row per threshold on a metric''s scores within a shard; joins sample_scores by dataset, shard and kind.';
COMMENT ON COLUMN shard_thresholds.kind IS 'caption, or qa for question-answer pairs; every kind has its own thresholds.';
COMMENT ON COLUMN shard_thresholds.objective IS 'Purpose, as recipes name it: keep 0.125 keeps the best eighth of the shard.';
COMMENT ON COLUMN shard_thresholds.low IS 'Lower end of the threshold''s 95 % interval; NULL where method is quantile, or the interval is undefined.';
COMMENT ON COLUMN shard_thresholds.high IS 'Upper end of the threshold''s 95 % interval; NULL where method is quantile, or the interval is undefined.';
COMMENT ON COLUMN shard_thresholds.n IS 'Number of scores that the threshold was computed from.';
COMMENT ON COLUMN shard_thresholds.method IS 'quantile (of the scores), or ratings (captions that people find good).';
COMMENT ON COLUMN shard_thresholds.details IS 'Where method is ratings: aspect, lowest rating of a good sample (by goodness in current_rating), shares of good and other samples that pass, Youden J on other videos.';
COMMENT ON COLUMN shard_thresholds.chosen_at IS 'When the row was computed.';
