"""Trains and measures the verifier. Nothing that runs imports this package; verifier/RECORD.md tells the outcome."""
