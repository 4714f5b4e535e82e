-- Samples of a selection, with their score by the scorer of another one when that was made.
SELECT i.sample_id,
       i.sample,
       i.kind,
       i.system,
       i.rank,
       i.value,
       s.sample_id IS NULL AS is_gone,
       then_score.value AS value_then,
       then_score.status AS status_then,
       then_score.was_stale
FROM selection_item i
LEFT JOIN sample s USING (sample_id)
LEFT JOIN LATERAL (
    SELECT c.value,
           c.status,
           c.was_stale
    FROM (SELECT value, status, scored_at, NULL AS replaced_at, is_stale AS was_stale
          FROM score
          WHERE scorer_id = :scorer_id
            AND sample_id = i.sample_id
          UNION ALL
          SELECT value, status, scored_at, replaced_at, true
          FROM past_score
          WHERE scorer_id = :scorer_id
            AND sample_id = i.sample_id) c
    WHERE c.scored_at <= :made_at
      AND (c.replaced_at IS NULL OR c.replaced_at > :made_at)
    ORDER BY c.scored_at DESC
    LIMIT 1) then_score ON true
WHERE i.selection_id = :holder
  AND i.sample_id = ANY(:sample_ids)
ORDER BY i.rank
