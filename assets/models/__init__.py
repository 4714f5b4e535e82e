"""The models that settings name: the fields that several metrics share, and how a model is made of them."""
