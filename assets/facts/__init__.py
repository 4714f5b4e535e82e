"""Facts about videos and texts, measured without a model. They describe: a higher number is not better."""
