-- The scores of a dataset that are stale or have no value, by kind and status, with the commonest reason.
-- Two indexes have such scores without the others: one the scores without a value, the other one the mark.
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
        AND value IS NOT NULL) c
JOIN sample s USING (sample_id)
WHERE s.dataset_id = :dataset_id
GROUP BY 1, 2
