"""ECS on the platform: verdicts on keypoints, thresholds from labels, and scores that follow from both."""
