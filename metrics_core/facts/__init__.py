"""Facts about texts and pictures: pure functions that describe and do not judge, without a model or a reference."""
