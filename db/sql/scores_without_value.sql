-- The scores of a dataset that are stale or have no value, by kind and status, with the commonest reason.
-- An index finds scores without a value, and another one has the mark; it is read only if a trigger counted stale scores.
SELECT s.kind,
       c.status,
       count(*) AS n,
       mode() WITHIN GROUP (ORDER BY c.error) AS reason
FROM (SELECT sample_id,
             CASE WHEN is_stale THEN 'stale' ELSE status END AS status,
             CASE WHEN NOT is_stale THEN error END AS error
      FROM score
      WHERE scorer_id = :scorer_id
        AND value IS NULL
      UNION ALL
      SELECT sample_id, 'stale', NULL
      FROM score
      WHERE scorer_id = :scorer_id
        AND is_stale
        AND value IS NOT NULL
        AND EXISTS (SELECT FROM shard_count
                    WHERE scorer_id = :scorer_id
                      AND dataset_id = :dataset_id
                      AND status = 'stale'
                      AND n > 0)) c
JOIN sample s USING (sample_id)
WHERE s.dataset_id = :dataset_id
GROUP BY 1, 2
