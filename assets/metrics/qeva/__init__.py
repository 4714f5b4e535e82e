"""QEVA: questions about videos and summaries, the answers to them, and the scorer that counts right answers."""
