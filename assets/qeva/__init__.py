"""QEVA on the platform: questions about videos and summaries, and the answers to them."""
