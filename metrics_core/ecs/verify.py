"""Verifying: has a model judge the planned pairs, all at once or rank by rank until the thresholds are reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metrics_core.ecs.premises import Pair, RankedPremises, list_unique_pairs
from metrics_core.ecs.verdict import KeypointVerdict, check_probabilities, decide_after_early_exit, decide_keypoint
from metrics_core.protocols import EntailmentModel, find_weigher


@dataclass(frozen=True, slots=True)
class Verification:
    """Verdicts in the order of the plans, and their cost.

    passes: the number of pairs judged for every plan. n_pairs: the number of different pairs that the model was given.
    n_truncated: the number of these pairs whose premise was cut to fit into the model.
    """

    verdicts: tuple[KeypointVerdict, ...]
    pass_counts: tuple[int, ...]
    n_pairs: int
    n_truncated: int

    @property
    def n_passes(self) -> int:
        """The pairs of all plans, where a pair of two plans counts twice (the paper's NLI passes)."""
        return sum(self.pass_counts)


class EntailmentCache:
    """A model's probabilities by pair. The model is asked for every pair once."""

    def __init__(self, model: EntailmentModel) -> None:
        self._model = model
        self._weigher = find_weigher(model)
        self.probability_by_pair: dict[Pair, float] = {}
        self.n_truncated = 0

    def ask(self, pairs: Sequence[Pair]) -> None:
        """Have the model judge, in one batch, all pairs that it has not judged yet."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.probability_by_pair]
        if not new:
            return
        entailments = self._model.entailment(new)
        self.probability_by_pair.update(zip(new, entailments.probabilities.tolist(), strict=True))
        self.n_truncated += int(entailments.truncated.sum())

    def list_probabilities(self, keypoint: RankedPremises, n_ranks: int | None = None) -> list[float]:
        """Return the probabilities of a plan's first pairs, all of which the model must have judged.

        Where the model weighs the whole text, they are corrected by it.
        """
        probabilities = [self.probability_by_pair[pair] for pair in keypoint.pairs[:n_ranks]]
        if self._weigher is None or not probabilities:
            return probabilities
        check_probabilities(keypoint, probabilities)
        return self._weigher.weigh(probabilities, keypoint.all_sentences or keypoint.premises, keypoint.hypothesis)


def verify_keypoints(
    keypoints: Sequence[RankedPremises], model: EntailmentModel, thresholds: Sequence[float] | None = None
) -> Verification:
    """Judge the planned pairs of one or many captions in one batch, every pair once.

    thresholds: one for every plan. Without thresholds the verdicts have a probability but no decision, which is what
    calibration needs. Where the model has a weigher, the whole text corrects its probabilities. Raises ValueError for
    another number of thresholds and for probabilities that `decide` refuses.
    """
    levels = [None] * len(keypoints) if thresholds is None else thresholds
    check_threshold_count(levels, keypoints)
    answers = EntailmentCache(model)
    answers.ask(list_unique_pairs(keypoints))
    verdicts = tuple(
        decide_keypoint(plan, answers.list_probabilities(plan), level)
        for plan, level in zip(keypoints, levels, strict=True)
    )
    passes = tuple(plan.n_passes for plan in keypoints)
    return Verification(verdicts, passes, len(answers.probability_by_pair), answers.n_truncated)


def verify_with_early_exit(
    keypoints: Sequence[RankedPremises], model: EntailmentModel, thresholds: Sequence[float]
) -> Verification:
    """Judge the pairs rank by rank, and stop with a keypoint once it reaches its threshold.

    `verify` covers the same keypoints with more passes, as long as the model always gives a pair the same probability.
    After an early stop the probability is a lower bound, which calibration cannot use. One rank of all plans is one
    batch, so give the plans of many captions together. Errors are the same as in `verify`.
    """
    check_threshold_count(thresholds, keypoints)
    answers = EntailmentCache(model)
    seen: list[list[float]] = [[] for _ in keypoints]
    undecided = list(range(len(keypoints)))
    rank = 0
    while undecided := [i for i in undecided if rank < keypoints[i].n_passes]:
        asked = {i: (keypoints[i].premises[rank], keypoints[i].hypothesis) for i in undecided}
        answers.ask(list(asked.values()))
        for i in asked:
            seen[i] = answers.list_probabilities(keypoints[i], rank + 1)
        # "not >=" keeps NaN among the undecided, so that `decide_after_early_exit` refuses it.
        undecided = [i for i in undecided if not seen[i][-1] >= thresholds[i]]
        rank += 1
    verdicts = tuple(
        decide_after_early_exit(plan, probabilities, level)
        for plan, probabilities, level in zip(keypoints, seen, thresholds, strict=True)
    )
    return Verification(verdicts, tuple(map(len, seen)), len(answers.probability_by_pair), answers.n_truncated)


def check_threshold_count(thresholds: Sequence[float | None], keypoints: Sequence[RankedPremises]) -> None:
    """Raise ValueError unless there is one threshold for every plan."""
    if len(thresholds) != len(keypoints):
        raise ValueError(f"There are {len(thresholds)} thresholds for {len(keypoints)} plans: give one for each.")
