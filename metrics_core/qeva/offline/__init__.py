"""QEVA without a model server: rules write the questions, and an entailment model answers them."""
