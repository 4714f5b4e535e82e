"""Planning: which (premise, hypothesis) pairs a verifier has to judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from metrics_core.ecs.retrieval import IntArray

Pair = tuple[str, str]
"""(premise, hypothesis): a sentence of the caption and a keypoint."""


@dataclass(frozen=True, slots=True)
class KeypointPlan:
    """The sentences that one keypoint is to be verified on, best first; none where the caption has no sentence.

    sentences: their indices in the caption. premises: their texts, in the same order. hypothesis: the keypoint.
    """

    hypothesis: str
    sentences: tuple[int, ...]
    premises: tuple[str, ...]

    @property
    def pairs(self) -> list[Pair]:
        """The pairs in order of rank: one pass of the verifier each."""
        return [(premise, self.hypothesis) for premise in self.premises]

    @property
    def n_passes(self) -> int:
        """How many pairs there are: min(r, m), summed over keypoints the paper's NLI passes."""
        return len(self.premises)


def plan_keypoints(
    keypoints: Sequence[str], sentences: Sequence[str], nearest: IntArray | None = None
) -> list[KeypointPlan]:
    """One plan for each keypoint of a caption.

    nearest (n, k): for each of n keypoints the indices of its sentences, best first, from `nearest_sentences`. None
    plans every sentence in order of the text (exhaustive verification). Raises ValueError for a blank keypoint and
    where `nearest` does not belong to these keypoints and sentences.

    >>> import numpy as np
    >>> plan_keypoints(["Someone sits."], ["A dog.", "He sits."], np.array([[1]]))[0].pairs
    [('He sits.', 'Someone sits.')]
    >>> [plan.n_passes for plan in plan_keypoints(["Someone sits.", "A dog."], ["A dog.", "He sits."])]
    [2, 2]
    """
    blank = next((i for i, keypoint in enumerate(keypoints) if not keypoint.strip()), None)
    if blank is not None:
        raise ValueError(f"Keypoint {blank} is blank: leave it out, as usable_keypoints does.")
    if nearest is None:
        everything = tuple(range(len(sentences)))
        return [KeypointPlan(keypoint, everything, tuple(sentences)) for keypoint in keypoints]
    if nearest.ndim != 2 or len(nearest) != len(keypoints):
        raise ValueError(f"nearest has shape {nearest.shape}: give one row for each of {len(keypoints)} keypoints.")
    if nearest.size and not 0 <= nearest.min() <= nearest.max() < len(sentences):
        raise ValueError(f"nearest names a sentence outside 0 to {len(sentences) - 1}: rank these sentences.")
    return [
        KeypointPlan(keypoint, tuple(ranked), tuple(sentences[i] for i in ranked))
        for keypoint, ranked in zip(keypoints, nearest.tolist(), strict=True)
    ]


def unique_pairs(plans: Iterable[KeypointPlan]) -> list[Pair]:
    """Every pair of the plans once, in order of first appearance: one flat queue over any number of captions.

    >>> unique_pairs(plan_keypoints(["A dog.", "A dog."], ["Dogs.", "Dogs.", "Cats."]))
    [('Dogs.', 'A dog.'), ('Cats.', 'A dog.')]
    """
    return list(dict.fromkeys(pair for plan in plans for pair in plan.pairs))
