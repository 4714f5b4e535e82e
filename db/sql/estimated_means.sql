-- The means of expensive scores that were estimated last from a part of a dataset, with names.
CREATE VIEW estimated_means AS
SELECT d.name AS dataset,
       m.dear,
       h.metric AS helper,
       m.group_kind,
       m.group_name,
       m.value,
       m.low,
       m.high,
       m.n,
       m.size,
       m.plain,
       m.gain,
       m.half_width,
       m.n_more,
       m.created_at AS estimated_at,
       m.dear_scorer_id,
       m.helper_scorer_id,
       m.dataset_id
FROM estimated_mean m
JOIN dataset d USING (dataset_id)
LEFT JOIN scorer h ON h.scorer_id = m.helper_scorer_id
