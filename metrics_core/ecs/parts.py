"""Keypoints of several sentences, verified sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from metrics_core.ecs.verdict import KeypointVerdict

Combination = Literal["all", "mean"]


def combine_parts(
    parts: Sequence[KeypointVerdict], how: Combination = "all", threshold: float | None = None
) -> KeypointVerdict:
    """One verdict on a keypoint from the verdicts on its sentences (at least one), each planned by itself.

    "all": every part must be covered, so the probability is that of the weakest part. "mean": the probability is the
    mean of the parts'. The sentence is the one found for the weakest part, where a person should look first. The parts'
    own decisions do not count. Raises ValueError without parts, for another `how`, and where parts of an early exit
    leave open whether the threshold is reached.

    >>> parts = [KeypointVerdict(0.9, 4, covered=None), KeypointVerdict(0.4, 1, covered=None)]
    >>> [combine_parts(parts, how, threshold=0.6).covered for how in ("all", "mean")]
    [False, True]
    """
    if how not in ("all", "mean"):
        raise ValueError(f'how is {how!r}: give "all" or "mean".')
    if not parts:
        raise ValueError("There are no parts: give the verdict on at least one sentence of the keypoint.")
    probabilities = [part.probability for part in parts if part.probability is not None]
    if len(probabilities) < len(parts):
        return KeypointVerdict(None, None, covered=False)
    weakest = min(range(len(parts)), key=probabilities.__getitem__)
    if how == "all":
        return parts[weakest].at(threshold)
    mean = sum(probabilities) / len(parts)
    is_lower_bound = any(part.is_lower_bound for part in parts)
    return KeypointVerdict(mean, parts[weakest].sentence, None, is_lower_bound).at(threshold)
