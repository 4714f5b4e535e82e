"""The models that settings name: settings that several metrics share, profiles, and the making of a model from them."""
