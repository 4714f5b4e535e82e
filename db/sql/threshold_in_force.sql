-- The thresholds by which keypoints are decided: those chosen on labels of the whole dataset.
CREATE VIEW threshold_in_force AS
SELECT scorer_id, dataset_id, dimension, threshold
FROM keypoint_threshold
WHERE scope = 'dataset' AND method = '{method_labels}'
