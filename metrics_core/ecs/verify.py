"""Have an entailment model judge keypoints on their sentences: all at once, or rank by rank until the thresholds are
reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metrics_core.ecs.premises import Pair, RankedPremises, list_unique_pairs
from metrics_core.ecs.verdict import KeypointVerdict, check_probabilities, decide_after_early_exit, decide_keypoint
from metrics_core.protocols import EntailmentModel, find_weigher


@dataclass(frozen=True, slots=True)
class Verification:
    """The verdicts on keypoints, in their order, with counts of what the entailment model judged for them. pass_counts:
    the number of (premise, hypothesis) pairs judged for every keypoint. n_pairs: the number of different pairs that the
    model was given. n_truncated: the number of these pairs whose premise was cut to fit into the model.
    """

    verdicts: tuple[KeypointVerdict, ...]
    pass_counts: tuple[int, ...]
    n_pairs: int
    n_truncated: int

    @property
    def n_passes(self) -> int:
        """The number of pairs judged for all keypoints together, the sum of `pass_counts`. A pair that belongs to two
        keypoints counts twice, as in the paper's number of NLI passes.
        """
        return sum(self.pass_counts)


class EntailmentCache:
    """The probabilities of one entailment model by (premise, hypothesis) pair, kept in memory. `ask` fills it, and asks
    the model for every pair only once. n_truncated: the number of these pairs whose premise was cut to fit into the
    model.
    """

    def __init__(self, model: EntailmentModel) -> None:
        self._model = model
        self._weigher = find_weigher(model)
        self.probability_by_pair: dict[Pair, float] = {}
        self.n_truncated = 0

    def ask(self, pairs: Sequence[Pair]) -> None:
        """Have the model judge, in one batch, the pairs that it has not judged yet. Keeps their probabilities in
        `probability_by_pair`, and adds the pairs with a cut premise to `n_truncated`.
        """
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.probability_by_pair]
        if not new:
            return
        entailments = self._model.entailment(new)
        self.probability_by_pair.update(zip(new, entailments.probabilities.tolist(), strict=True))
        self.n_truncated += int(entailments.truncated.sum())

    def list_probabilities(self, keypoint: RankedPremises, n_ranks: int | None = None) -> list[float]:
        """Return P(entailment) of a keypoint's first `n_ranks` pairs, or of all with None, best ranked first. Where the
        model has a weigher (`find_weigher`), the probabilities are corrected by the caption's whole text. Raises
        KeyError for a pair that was never asked, and ValueError for a probability to correct outside [0, 1].
        """
        probabilities = [self.probability_by_pair[pair] for pair in keypoint.pairs[:n_ranks]]
        if self._weigher is None or not probabilities:
            return probabilities
        check_probabilities(keypoint, probabilities)
        return self._weigher.weigh(probabilities, keypoint.all_sentences or keypoint.premises, keypoint.hypothesis)


def verify_keypoints(
    keypoints: Sequence[RankedPremises], model: EntailmentModel, thresholds: Sequence[float] | None = None
) -> Verification:
    """Return one verdict for every keypoint, in order, with the numbers of pairs judged; the keypoints may belong to
    many captions. The model judges every distinct pair once, all in one batch. thresholds: one for every keypoint; with
    None, keypoints that have a sentence get a probability but no decision, as calibration needs them.

    Where the model has a weigher, the whole text corrects its probabilities. Raises ValueError for another number of
    thresholds and for probabilities that `decide_keypoint` refuses.
    """
    levels = [None] * len(keypoints) if thresholds is None else thresholds
    _check_threshold_count(levels, keypoints)
    answers = EntailmentCache(model)
    answers.ask(list_unique_pairs(keypoints))
    verdicts = tuple(
        decide_keypoint(keypoint, answers.list_probabilities(keypoint), level)
        for keypoint, level in zip(keypoints, levels, strict=True)
    )
    passes = tuple(keypoint.n_passes for keypoint in keypoints)
    return Verification(verdicts, passes, len(answers.probability_by_pair), answers.n_truncated)


def verify_with_early_exit(
    keypoints: Sequence[RankedPremises], model: EntailmentModel, thresholds: Sequence[float]
) -> Verification:
    """Return one verdict for every keypoint, in order, with the numbers of pairs judged; the keypoints may belong to
    many captions. A keypoint's sentences are judged best ranked first, and no more of them once one reaches the
    keypoint's threshold. The probability is a lower bound if sentences remain, and calibration cannot use it.

    `verify_keypoints` covers the same keypoints with more passes, as long as the model always gives a pair the same
    probability. One rank of all keypoints is one batch, so give the keypoints of many captions together. Errors are the
    same as in `verify_keypoints`.
    """
    _check_threshold_count(thresholds, keypoints)
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
        decide_after_early_exit(keypoint, probabilities, level)
        for keypoint, probabilities, level in zip(keypoints, seen, thresholds, strict=True)
    )
    return Verification(verdicts, tuple(map(len, seen)), len(answers.probability_by_pair), answers.n_truncated)


def _check_threshold_count(thresholds: Sequence[float | None], keypoints: Sequence[RankedPremises]) -> None:
    """Raise ValueError unless there are as many thresholds as keypoints."""
    if len(thresholds) != len(keypoints):
        raise ValueError(
            f"The number of thresholds is {len(thresholds)}, that of keypoints {len(keypoints)}: give one per keypoint."
        )
