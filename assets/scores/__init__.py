"""Scores of samples: what a scorer is, the work it has left, and the loop that scores a shard."""
