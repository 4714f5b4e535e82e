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
WHERE t.scope = 'shard'
