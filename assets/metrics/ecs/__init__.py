"""ECS: verdicts on keypoints, thresholds chosen on labels, and the scorer that computes scores from both."""
