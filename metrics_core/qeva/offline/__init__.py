"""Our stand-in for QEVA's models, without a server: rules write questions, and an entailment model answers them."""
