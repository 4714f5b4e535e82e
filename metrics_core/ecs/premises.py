"""Choose the sentences of a caption on which an entailment model verifies the keypoints of a checklist."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import IntArray
from metrics_core.ecs.result import ECSWarning
from metrics_core.protocols import SentenceSplitter
from metrics_core.vectors import normalise_rows, require_feature_rows

Pair = tuple[str, str]
"""(premise, hypothesis): a sentence of the caption and a keypoint."""

MAX_RELIABLE_WORDS = 40
"""Beyond this number of words NLI models become unreliable, because they were trained on short hypotheses."""

DEFAULT_R = 8
"""Sentences per keypoint. The paper does not state the number; 8 follows from the passes that it reports."""

FIELD_TAG = re.compile(r"^\s*\[[^\]\t]*\]\t")


def split_premises(text: str, splitter: SentenceSplitter) -> list[str]:
    """Split a caption into its sentences, in order; [] for a text without a letter or digit. A line break ends a
    sentence. A field name at the start of a line, as in "[camera_state]<TAB>Slow pan.", is removed, and so is a
    sentence without a letter or digit.

    Short sentences stay, because one word of dialogue may be a keypoint.

    >>> from metrics_core.models.sentence_splitter import RuleSplitter
    >>> split_premises("[events]\\tA man sits. He waves.\\n[speech]\\tHi!\\n...", RuleSplitter())
    ['A man sits.', 'He waves.', 'Hi!']
    """
    lines = (FIELD_TAG.sub("", line) for line in text.splitlines())
    sentences = (sentence for line in lines for sentence in splitter.split(line))
    return [sentence for sentence in sentences if any(character.isalnum() for character in sentence)]


def list_usable_keypoints(texts: Sequence[str]) -> list[int]:
    """Return the positions from 0 of the keypoints that are not blank, in order. Repeated keypoints all stay. Gives one
    ECSWarning with their numbers if keypoints are blank or have more than MAX_RELIABLE_WORDS (40) words.

    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     list_usable_keypoints(["A man sits.", " ", "A man sits."])
    [0, 2]
    >>> print(caught[0].message)
    Blank keypoints are left out: 1, the first at position 1.
    """
    blank = [i for i, text in enumerate(texts) if not text.strip()]
    long = [i for i, text in enumerate(texts) if len(text.split()) > MAX_RELIABLE_WORDS]
    sentences = []
    if blank:
        sentences.append(f"Blank keypoints are left out: {len(blank)}, the first at position {blank[0]}.")
    if long:
        sentences.append(
            f"Keypoints of more than {MAX_RELIABLE_WORDS} words: {len(long)}, the first at position {long[0]}. NLI "
            "models are weak there, so write several short ones or verify their sentences one by one "
            "(combine_part_verdicts)."
        )
    if sentences:
        warnings.warn("\n".join(sentences), ECSWarning, stacklevel=2)
    left_out = set(blank)
    return [i for i in range(len(texts)) if i not in left_out]


def rank_nearest_sentences(keypoints: npt.ArrayLike, sentences: npt.ArrayLike, r: int | None = DEFAULT_R) -> IntArray:
    """Return for every keypoint the indices of its r nearest sentences by cosine, best first: an array (n, min(r, m)),
    or (n, 0) where n or m is 0. keypoints (n, d) and sentences (m, d) are embeddings of one text encoder. r=None ranks
    all sentences.

    Of equal cosines the lower index comes first, so equal sentences keep their order. Raises ValueError for r below 1
    and for arrays that do not fit together, and BadFeature (a ValueError) for an embedding that is zero or not finite.

    >>> rank_nearest_sentences([[1.0, 0.0]], [[0.0, 1.0], [3.0, 4.0], [2.0, 0.0], [0.6, 0.8]], r=3).tolist()
    [[2, 1, 3]]
    """
    if r is not None and r < 1:
        raise ValueError(f"r is {r}: give at least 1 sentence for each keypoint, or None for all of them.")
    left, right = (
        require_feature_rows("keypoint embeddings", keypoints),
        require_feature_rows("sentence embeddings", sentences),
    )
    if not (len(left) and len(right)):
        return np.empty((len(left), 0), dtype=np.int64)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"keypoints have {left.shape[1]} dimensions, sentences {right.shape[1]}: embed both with one encoder."
        )
    # A matrix product may round equal rows differently and so break their tie; single dot products do not.
    cosines = np.vecdot(normalise_rows("keypoint", left)[:, None], normalise_rows("sentence", right)[None])
    return np.argsort(-cosines, axis=1, kind="stable")[:, :r]


@dataclass(frozen=True, slots=True)
class RankedPremises:
    """One keypoint with the sentences of a caption to verify it on, best first; no sentences where the caption has
    none. hypothesis: the keypoint's text. premises: the texts of these sentences. sentence_indices: their positions
    from 0 in the caption.

    all_sentences: all sentences of the caption, in its order, for models that weigh the whole text; () where there is
    nothing beyond the premises.
    """

    hypothesis: str
    sentence_indices: tuple[int, ...]
    premises: tuple[str, ...]
    all_sentences: tuple[str, ...] = ()

    @property
    def pairs(self) -> list[Pair]:
        """The (premise, hypothesis) pairs to judge, one for each sentence, best first; each costs one pass of the
        entailment model.
        """
        return [(premise, self.hypothesis) for premise in self.premises]

    @property
    def n_passes(self) -> int:
        """The number of sentences that the keypoint is verified on, with one (premise, hypothesis) pair each. Where r
        sentences were ranked of a caption with m, it is min(r, m). Its sum over the keypoints is the paper's number of
        NLI passes.
        """
        return len(self.premises)


def choose_premises(
    keypoints: Sequence[str], sentences: Sequence[str], nearest: IntArray | None = None
) -> list[RankedPremises]:
    """Return for every keypoint of a caption, in order, the sentences to verify it on. nearest (n, k): the indices of
    these sentences, best first, one row per keypoint, from `rank_nearest_sentences`. With None every keypoint gets all
    sentences in the order of the text (exhaustive verification).

    Raises ValueError for a blank keypoint and where `nearest` does not belong to these keypoints and sentences.

    >>> import numpy as np
    >>> choose_premises(["Someone sits."], ["A dog.", "He sits."], np.array([[1]]))[0].pairs
    [('He sits.', 'Someone sits.')]
    >>> [ranked.n_passes for ranked in choose_premises(["Someone sits.", "A dog."], ["A dog.", "He sits."])]
    [2, 2]
    """
    blank = next((i for i, keypoint in enumerate(keypoints) if not keypoint.strip()), None)
    if blank is not None:
        raise ValueError(f"Keypoint {blank} is blank: leave it out, as list_usable_keypoints does.")
    text = tuple(sentences)
    if nearest is None:
        return [RankedPremises(keypoint, tuple(range(len(text))), text, text) for keypoint in keypoints]
    if nearest.ndim != 2 or len(nearest) != len(keypoints):
        raise ValueError(f"nearest has shape {nearest.shape}: give one row per keypoint, {len(keypoints)} in all.")
    if nearest.size and not 0 <= nearest.min() <= nearest.max() < len(sentences):
        raise ValueError(f"nearest names a sentence outside 0 to {len(sentences) - 1}: rank these sentences.")
    return [
        RankedPremises(keypoint, tuple(ranked), tuple(text[i] for i in ranked), text)
        for keypoint, ranked in zip(keypoints, nearest.tolist(), strict=True)
    ]


def list_unique_pairs(keypoints: Iterable[RankedPremises]) -> list[Pair]:
    """Return every distinct (premise, hypothesis) pair of the keypoints once, in order of first appearance. The
    keypoints may belong to any number of captions.

    >>> list_unique_pairs(choose_premises(["A dog.", "A dog."], ["Dogs.", "Dogs.", "Cats."]))
    [('Dogs.', 'A dog.'), ('Cats.', 'A dog.')]
    """
    return list(dict.fromkeys(pair for keypoint in keypoints for pair in keypoint.pairs))
