"""Decide whether keypoints are covered: from the probabilities of an entailment model to verdicts, without a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from metrics_core.ecs.premises import RankedPremises

Combination = Literal["all", "mean"]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The lowest probabilities at which keypoints count as covered. by_dimension: the threshold by name of the
    dimension. default: the threshold of all other dimensions, such as the verifier's own; None where they have none.

    >>> thresholds = Thresholds({"camera": 0.3}, default=0.5)
    >>> thresholds.require_threshold("camera"), thresholds.require_threshold("speech")
    (0.3, 0.5)
    """

    by_dimension: Mapping[str, float]
    default: float | None = None

    def require_threshold(self, dimension: str) -> float:
        """Return the threshold of a dimension, or else the default. Raises ValueError where there is neither."""
        threshold = self.by_dimension.get(dimension, self.default)
        if threshold is None:
            raise ValueError(f"There is no threshold for {dimension!r}: calibrate it, or give a default.")
        return threshold


@dataclass(frozen=True, slots=True)
class KeypointVerdict:
    """Whether one caption covers one keypoint, and the probability that decided this. probability: the highest
    P(entailment) of the caption's sentences, in [0, 1]. sentence: the index of the sentence with this probability.
    covered: whether the probability reaches the threshold, None as long as there is no threshold. Without a sentence,
    probability and sentence are None and covered is False.

    The whole text corrects the probability where the verifier weighs it. Of equal sentences the best ranked counts.
    """

    probability: float | None
    sentence: int | None
    covered: bool | None

    def apply_threshold(self, threshold: float | None) -> KeypointVerdict:
        """Return the verdict decided anew at a threshold, without a model: covered where probability >= threshold. None
        leaves it undecided; a keypoint without a sentence stays uncovered. Raises ValueError for NaN.

        >>> KeypointVerdict(0.5, 0, covered=False).apply_threshold(0.5).covered
        True
        """
        if threshold is not None and math.isnan(threshold):
            raise ValueError("The threshold is NaN: give a number, or None where there is none yet.")
        if self.probability is None:
            return replace(self, covered=False)
        if threshold is None:
            return replace(self, covered=None)
        return replace(self, covered=self.probability >= threshold)


def decide_keypoint(
    keypoint: RankedPremises, probabilities: Sequence[float], threshold: float | None = None
) -> KeypointVerdict:
    """Return the verdict on a keypoint, given P(entailment) of all its pairs, best ranked first. The highest
    probability decides: it covers the keypoint if it reaches the threshold. Without a threshold the verdict is
    undecided; without pairs the keypoint is uncovered.

    This is Eq. 1 of the ECS paper. Raises ValueError, quoting the pair, for a probability that is NaN or outside [0,
    1], and for another number of probabilities than pairs.

    >>> keypoint = RankedPremises("Someone sits.", (4, 0), ("A man rests.", "He sits."))
    >>> decide_keypoint(keypoint, [0.2, 0.9], threshold=0.8)
    KeypointVerdict(probability=0.9, sentence=0, covered=True)
    """
    if len(probabilities) != keypoint.n_passes:
        raise ValueError(
            f"The number of probabilities is {len(probabilities)}, that of sentences of the keypoint "
            f"{keypoint.hypothesis[:80]!r} is {keypoint.n_passes}: give one per sentence, in order of rank."
        )
    check_probabilities(keypoint, probabilities)
    if not len(probabilities):
        return KeypointVerdict(None, None, covered=False)
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    return KeypointVerdict(float(probabilities[best]), keypoint.sentence_indices[best], None).apply_threshold(threshold)


def check_probabilities(keypoint: RankedPremises, probabilities: Sequence[float]) -> None:
    """Raise ValueError, quoting the pair, for a probability that is NaN or outside [0, 1]. probabilities: P(entailment)
    of the keypoint's pairs, best ranked first.
    """
    for (premise, hypothesis), probability in zip(keypoint.pairs, probabilities, strict=True):
        if not 0 <= probability <= 1:
            raise ValueError(
                f"The probability that {premise[:80]!r} entails {hypothesis[:80]!r} is {probability}: "
                "check the verifier, whose answers must lie in [0, 1]."
            )


def combine_part_verdicts(
    parts: Sequence[KeypointVerdict], how: Combination = "all", threshold: float | None = None
) -> KeypointVerdict:
    """Return one verdict on a long keypoint from the verdicts on its sentences, which were verified like keypoints.
    how: "all" takes the lowest of their probabilities, "mean" the mean. It is decided at `threshold`, whatever the
    parts' decisions are; None leaves it undecided. If a part has no probability, the keypoint is uncovered.

    The result names the caption's sentence that fits the weakest part best, because a person should look there first.
    Raises ValueError without parts, for another `how`, and for a threshold that is NaN.

    >>> parts = [KeypointVerdict(0.9, 4, covered=None), KeypointVerdict(0.4, 1, covered=None)]
    >>> [combine_part_verdicts(parts, how, threshold=0.6).covered for how in ("all", "mean")]
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
        return parts[weakest].apply_threshold(threshold)
    mean = sum(probabilities) / len(parts)
    return KeypointVerdict(mean, parts[weakest].sentence, None).apply_threshold(threshold)
