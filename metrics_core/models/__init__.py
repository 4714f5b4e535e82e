"""Adapters that put real models and decoders behind the small protocols of metrics_core."""
