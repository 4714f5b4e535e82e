"""What models made of texts and videos: vectors, frames, keywords, verdicts, questions and replies."""
