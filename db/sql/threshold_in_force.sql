-- The thresholds by which keypoints are decided: those chosen on labels of the whole dataset.
CREATE VIEW threshold_in_force AS
SELECT scorer_id, dataset_id, dimension, threshold
FROM keypoint_threshold
WHERE shard IS NULL AND method = '{method_labels}';

COMMENT ON VIEW threshold_in_force IS 'The thresholds on keypoint probabilities by which ECS counts a keypoint as covered.';
COMMENT ON COLUMN threshold_in_force.dimension IS 'Dimension of the keypoints that the threshold decides.';
