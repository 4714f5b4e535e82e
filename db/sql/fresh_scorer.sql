-- Scorers without a stale or unknown score in any shard: one look at this tells that none of their scores is stale.
CREATE VIEW plumbing.fresh_scorer AS
SELECT r.scorer_id,
       r.metric,
       r.status
FROM scorer r
WHERE NOT EXISTS (SELECT 1
                  FROM shard h
                  WHERE NOT EXISTS (SELECT 1
                                    FROM plumbing.fresh_shard f
                                    WHERE f.scorer_id = r.scorer_id
                                      AND f.dataset_id = h.dataset_id
                                      AND f.shard = h.shard))
