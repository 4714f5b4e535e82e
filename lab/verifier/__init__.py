"""Trains and measures the verifier of ECS. Nothing that runs imports this; the RECORD.md there has the outcome."""
