"""Training trials of selections: arms, their vectors, the trial itself, and its conclusions as sentences."""
