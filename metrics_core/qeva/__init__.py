"""QEVA: coverage, factuality and chronology of a video's summary by question answering."""
