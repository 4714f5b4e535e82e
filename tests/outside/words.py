"""The metric `shared_words`: a function of an installed package, and nothing else. The entry point is in
`test_outside_metric.py`.
"""

from __future__ import annotations

import reelsieve as rs


@rs.metric("shared_words", version="1", value_range=(0, 1))
def words(text: str, references: list[str]) -> float:
    """The share of the caption's words that a reference has."""
    if "bird" in text:
        raise ValueError("birds are not counted\nhere")
    known = {word for reference in references for word in reference.split()}
    said = text.split()
    return sum(word in known for word in said) / len(said)
