"""Where a text tells of an event, for questions about the order of events (spec 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from metrics_core.qeva.evidence import Evidence

SPREAD = 0.1
"""A sentence whose likeness is less by this much weighs e times less."""

WEIGHT_OF_ENTAILMENT = 0.2
"""The power of the odds of entailment in a sentence's weight. Two wordings of one event seldom entail each other."""

SMALLEST = 1e-3
"""Stands for a probability of 0, also of a sentence that was not verified, and added to every probability."""

SAME = 1e-4
"""Places that differ by less are the same: a vector differs in its last digits with the batch it was made in."""

MENTIONED = 0.2
"""An event whose likeness to every sentence is less, and that none entails, is not told by the text."""


def place_of(evidence: Evidence, threshold: float, forced: bool = False) -> float | None:
    """Where the sentences tell of an event: a number from 0 to m - 1, the mean of their places by weight.

    A sentence weighs exp(likeness / SPREAD) times the odds of entailment to the power of WEIGHT_OF_ENTAILMENT. None
    where there is no sentence, or none that mentions the event: its probability is below the threshold and its
    likeness below MENTIONED. A forced answer has a place wherever there is a sentence.

    >>> told = Evidence(np.array([0.2, 0.8, 0.2]), np.array([0.0, 0.9, 0.0]))
    >>> round(place_of(told, threshold=0.5), 2)
    1.0
    >>> place_of(Evidence(np.array([0.1]), np.array([0.0])), threshold=0.5) is None
    True
    """
    if evidence.best is None:
        return None
    highest = evidence.likeness.max()
    if highest < MENTIONED and evidence.support < threshold and not forced:
        return None
    probability = np.nan_to_num(evidence.probability, nan=0.0)
    odds = (probability + SMALLEST) / (1 - probability + SMALLEST)
    weights = np.exp((evidence.likeness - highest) / SPREAD) * odds**WEIGHT_OF_ENTAILMENT
    return float(weights @ np.arange(len(weights)) / weights.sum())


def order_of(places: Sequence[float | None]) -> tuple[int, ...] | None:
    """The numbers of the events in the order of their places; None where a place is missing or two are the same.

    Places that differ by less than SAME are the same.

    >>> order_of([2.0, 0.0, 1.5]), order_of([1.0, 1.0]), order_of([1.0, None])
    ((1, 2, 0), None, None)
    """
    known = [place for place in places if place is not None]
    order = sorted(range(len(known)), key=known.__getitem__)
    apart = all(known[later] - known[earlier] > SAME for earlier, later in pairwise(order))
    return tuple(order) if apart and len(known) == len(places) else None
