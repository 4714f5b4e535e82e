"""Retrieval: which sentences of a caption are near enough to a keypoint to be worth a verifier's pass?"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrics_core.evqa.features import feature_rows, unit_rows

IntArray = npt.NDArray[np.int64]

DEFAULT_R = 8
"""Sentences per keypoint. The paper does not say; 8 is inferred from the passes that it reports."""


def nearest_sentences(keypoints: npt.ArrayLike, sentences: npt.ArrayLike, r: int | None = DEFAULT_R) -> IntArray:
    """For each keypoint the min(r, m) sentences with the greatest cosine, best first: indices (n, min(r, m)).

    keypoints: (n, d), sentences: (m, d), embeddings of one text encoder; n and m may be 0. Of equal cosines the lower
    index comes first, so equal sentences keep their order. r=None ranks all sentences. Raises ValueError for r below 1
    and for arrays that do not fit together, BadFeature (a ValueError) for an embedding that is zero or not finite.

    >>> nearest_sentences([[1.0, 0.0]], [[0.0, 1.0], [3.0, 4.0], [2.0, 0.0], [0.6, 0.8]], r=3).tolist()
    [[2, 1, 3]]
    """
    if r is not None and r < 1:
        raise ValueError(f"r is {r}: give at least 1 sentence for each keypoint, or None for all of them.")
    left, right = feature_rows("keypoint embeddings", keypoints), feature_rows("sentence embeddings", sentences)
    if not (len(left) and len(right)):
        return np.empty((len(left), 0), dtype=np.int64)
    if left.shape[1] != right.shape[1]:
        raise ValueError(
            f"keypoints have {left.shape[1]} dimensions, sentences {right.shape[1]}: embed both with one encoder."
        )
    # One dot product each instead of a matrix product, which may round equal rows differently and so break their tie.
    cosines = np.vecdot(unit_rows("keypoint", left)[:, None], unit_rows("sentence", right)[None])
    return np.argsort(-cosines, axis=1, kind="stable")[:, :r]
