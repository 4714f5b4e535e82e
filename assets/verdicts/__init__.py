"""Verdicts: which keypoints a caption entails, by which of its sentences and how surely."""
