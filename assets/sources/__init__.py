"""Sources: steps that ask a model for evidence about samples, each with its own tables; and the measured facts."""
