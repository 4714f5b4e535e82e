"""The scorer of EVQAScore, with its settings and the preparation of its texts."""
