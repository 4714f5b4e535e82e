"""Facts that describe videos and texts without a model; nothing here says that more of one is better."""
