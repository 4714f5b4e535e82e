-- The cuts on the scores of active scorers within each shard. A natural join with sample_scores is by dataset and shard,
-- and with current_score by dataset, shard and scorer.
CREATE VIEW shard_thresholds AS
SELECT d.name AS dataset,
       t.shard,
       r.metric,
       t.objective,
       t.at_least,
       t.low,
       t.high,
       t.n,
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
