"""ECS on the platform: verdicts on keypoints, thresholds chosen on labels, and scores computed from both."""
