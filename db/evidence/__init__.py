"""Store and load the evidence that models produced from texts and videos: vectors, frames, keywords, verdicts,
answers.
"""
