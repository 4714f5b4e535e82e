-- The means of expensive scores that were estimated last from a part of a dataset, with names.
CREATE VIEW estimated_means AS
SELECT d.name AS dataset,
       m.expensive_score,
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
       m.expensive_scorer_id,
       m.helper_scorer_id,
       m.dataset_id
FROM estimated_mean m
JOIN dataset d USING (dataset_id)
LEFT JOIN scorer h ON h.scorer_id = m.helper_scorer_id;

COMMENT ON VIEW estimated_means IS 'One row per mean of an expensive score (ratings, or a judge) over all captions of a dataset, system or selection, estimated from a random part, by the scorer that corrects it. An interval is of these captions; it does not compare systems.';
COMMENT ON COLUMN estimated_means.helper IS 'Metric whose values for all captions of the group correct the mean; NULL where nothing does.';
COMMENT ON COLUMN estimated_means.value IS 'Estimated mean over all captions of the group.';
COMMENT ON COLUMN estimated_means.low IS 'Lower end of the 95 % interval; NULL where all answers are equal and none is known outside of the part.';
COMMENT ON COLUMN estimated_means.high IS 'Upper end of the 95 % interval.';
COMMENT ON COLUMN estimated_means.n IS 'Number of answers that count: those before the first gap in the order of the draw.';
COMMENT ON COLUMN estimated_means.estimated_at IS 'When the row was computed.';
