"""Deciding: from a verifier's probabilities to a verdict on each keypoint, without a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from metrics_core.ecs.plan import KeypointPlan


@dataclass(frozen=True, slots=True)
class KeypointVerdict:
    """What became of one keypoint.

    probability: the greatest P(entailment) of its sentences, in [0, 1]. sentence: index of the sentence that has it, of
    equal ones the best ranked. covered: probability >= threshold, None as long as there is no threshold. Where the
    caption has no sentence, nothing was verified: probability and sentence are None and covered is False.
    is_lower_bound: not all sentences were verified (early exit), so that the others may have a greater probability.
    """

    probability: float | None
    sentence: int | None
    covered: bool | None
    is_lower_bound: bool = False

    def at(self, threshold: float | None) -> KeypointVerdict:
        """The same verdict at another threshold, without another pass of a model.

        Raises ValueError for NaN, and where the probability is a lower bound below the threshold, so that the answer
        depends on sentences that were not verified.

        >>> KeypointVerdict(0.5, 0, covered=False).at(0.5).covered
        True
        """
        if threshold is not None and math.isnan(threshold):
            raise ValueError("The threshold is NaN: give a number, or None where there is none yet.")
        if self.probability is None:
            return replace(self, covered=False)
        if threshold is None:
            return replace(self, covered=None)
        covered = self.probability >= threshold
        if self.is_lower_bound and not covered:
            raise ValueError(
                f"The keypoint was verified until its probability was {self.probability:.4f}, which does not decide "
                f"the higher threshold {threshold:.4f}: verify it without early exit."
            )
        return replace(self, covered=covered)


def decide(plan: KeypointPlan, probabilities: Sequence[float], threshold: float | None = None) -> KeypointVerdict:
    """The verdict on a keypoint from P(entailment) of each of its pairs, in order of rank (Eq. 1 of the ECS paper).

    Raises ValueError, quoting the pair, for a probability that is NaN or outside [0, 1], and where their number is not
    that of the pairs.

    >>> plan = KeypointPlan("Someone sits.", (4, 0), ("A man rests.", "He sits."))
    >>> decide(plan, [0.2, 0.9], threshold=0.8)
    KeypointVerdict(probability=0.9, sentence=0, covered=True, is_lower_bound=False)
    """
    if len(probabilities) != plan.n_passes:
        raise ValueError(
            f"There are {len(probabilities)} probabilities for {plan.n_passes} sentences of the keypoint "
            f"{plan.hypothesis[:80]!r}: give one for each, in order of rank."
        )
    return decide_so_far(plan, probabilities, threshold)


def decide_so_far(plan: KeypointPlan, probabilities: Sequence[float], threshold: float | None) -> KeypointVerdict:
    """`decide` where only the first ranks were verified; the threshold must then be reached."""
    for (premise, hypothesis), probability in zip(plan.pairs, probabilities, strict=False):
        if not 0 <= probability <= 1:
            raise ValueError(
                f"The probability that {premise[:80]!r} entails {hypothesis[:80]!r} is {probability}: "
                "check the verifier, whose answers must lie in [0, 1]."
            )
    if not len(probabilities):
        return KeypointVerdict(None, None, covered=False)
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    is_lower_bound = len(probabilities) < plan.n_passes
    return KeypointVerdict(float(probabilities[best]), plan.sentences[best], None, is_lower_bound).at(threshold)
