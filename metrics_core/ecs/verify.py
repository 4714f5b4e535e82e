"""Have an entailment model judge keypoints on their sentences, each different pair once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metrics_core.ecs.premises import Pair, RankedPremises, list_unique_pairs
from metrics_core.ecs.verdict import KeypointVerdict, check_probabilities, decide_keypoint
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
        """Let the model judge, in one batch, the pairs that it has not judged yet; keep their probabilities, and
        count pairs with a cut premise in `n_truncated`.
        """
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.probability_by_pair]
        if not new:
            return
        entailments = self._model.entailment(new)
        self.probability_by_pair.update(zip(new, entailments.probabilities.tolist(), strict=True))
        self.n_truncated += int(entailments.truncated.sum())

    def list_probabilities(self, keypoint: RankedPremises) -> list[float]:
        """Return P(entailment) of a keypoint's pairs, best ranked first. Where the model has a weigher
        (`find_weigher`), the probabilities are corrected by the caption's whole text. Raises KeyError for a pair that
        was never asked, and ValueError for a probability to correct outside [0, 1].
        """
        probabilities = [self.probability_by_pair[pair] for pair in keypoint.pairs]
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
    if len(levels) != len(keypoints):
        raise ValueError(
            f"The number of thresholds is {len(levels)}, that of keypoints {len(keypoints)}: give one per keypoint."
        )
    answers = EntailmentCache(model)
    answers.ask(list_unique_pairs(keypoints))
    verdicts = tuple(
        decide_keypoint(keypoint, answers.list_probabilities(keypoint), level)
        for keypoint, level in zip(keypoints, levels, strict=True)
    )
    passes = tuple(keypoint.n_passes for keypoint in keypoints)
    return Verification(verdicts, passes, len(answers.probability_by_pair), answers.n_truncated)
