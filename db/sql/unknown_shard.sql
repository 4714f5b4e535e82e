-- Shards whose samples have to be looked at one by one to tell how many of a scorer's scores are fresh.
CREATE VIEW plumbing.unknown_shard AS
SELECT r.scorer_id,
       h.dataset_id,
       h.shard
FROM scorer r
CROSS JOIN shard h
WHERE NOT EXISTS (SELECT 1
                  FROM plumbing.shard_status k
                  WHERE k.scorer_id = r.scorer_id AND k.dataset_id = h.dataset_id AND k.shard = h.shard)
