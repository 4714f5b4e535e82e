"""Compute EVQAScore from features: keywords against frames, and the whole text against the pooled video."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrics_core.arithmetic import harmonic_mean
from metrics_core.arrays import FloatArray
from metrics_core.evqa.features import VideoFeatures, prepare_frames
from metrics_core.evqa.result import EVQAResult, average_coarse_and_fine
from metrics_core.vectors import BadFeature, normalise_rows, require_feature_rows


def evqa_from_features(
    frames: npt.ArrayLike,
    keywords: npt.ArrayLike,
    text: npt.ArrayLike,
    *,
    keyword_weights: npt.ArrayLike | None = None,
    regions: npt.ArrayLike | None = None,
) -> EVQAResult:
    """Return EVQAScore of one text and one video, a status if it cannot be scored, from features of one image-text
    encoder: frames (T, d), keywords (K, d), and the whole text (d,). keyword_weights (K,): None weighs all keywords
    equally, as EVQAScore does. regions (n, d): crops that replace the frames in precision and recall.

    This is section 3 of arXiv 2411.06908. Weights are not negative, and scaled here to the sum 1. Features need not
    have unit length: they are normalised in float64. For many texts of one video call `prepare_frames` once and
    `evqa_from_prepared_frames` for every text.

    Raises ValueError for arrays whose shapes do not fit together and for weights that are negative or not finite.

    >>> result = evqa_from_features(frames=[[2, 0], [0, 1]], keywords=[[1, 0]], text=[0, 3])
    >>> result.precision, result.recall, round(result.f1, 4), round(result.coarse, 4), round(result.score, 4)
    (1.0, 0.5, 0.6667, 0.7071, 0.6869)
    """
    return evqa_from_prepared_frames(prepare_frames(frames, regions), keywords, text, keyword_weights=keyword_weights)


def evqa_from_prepared_frames(
    video: VideoFeatures,
    keywords: npt.ArrayLike,
    text: npt.ArrayLike,
    *,
    keyword_weights: npt.ArrayLike | None = None,
) -> EVQAResult:
    """Return EVQAScore of one text and a video that `prepare_frames` prepared. It equals `evqa_from_features` to the
    last bit, and raises the same errors. keywords (K, d): one row per keyword. text (d,): the whole text.
    keyword_weights (K,): None weighs all keywords equally.

    >>> video = prepare_frames([[2, 0], [0, 1]])
    >>> [evqa_from_prepared_frames(video, keywords, [0, 3]).status for keywords in ([[1, 0]], [])]
    ['ok', 'no_keywords']
    """
    text_row = np.asarray(text, dtype=np.float64)
    if text_row.ndim != 1 or text_row.size == 0:
        raise ValueError(f"text has shape {text_row.shape}: give the feature (d,) of the whole text.")
    keyword_rows = require_feature_rows("keywords", keywords)
    weights = None if keyword_weights is None else _scale_weights(keyword_weights, len(keyword_rows))
    n_keywords = len(keyword_rows)
    if video.status != "ok":
        return EVQAResult(n_keywords=n_keywords, status=video.status, reason=video.reason)
    _check_dimensions(video.pooled_vector.size, text_row[None], keyword_rows)
    try:
        coarse = float(np.clip(normalise_rows("text", text_row[None])[0] @ video.pooled_vector, -1.0, 1.0))
        if n_keywords == 0:
            return EVQAResult(coarse=coarse, n_keywords=0, status="no_keywords", reason="the text has no keyword")
        cosines = _compute_cosines(keyword_rows, video.local_rows)
    except BadFeature as error:
        return EVQAResult(n_keywords=n_keywords, status="bad_feature", reason=str(error))
    return _combine_coarse_and_fine(cosines, coarse, weights)


def compute_keyword_frame_cosines(keywords: npt.ArrayLike, frames: npt.ArrayLike) -> FloatArray:
    """Return the cosines (K, T) of keywords (K, d) with frames (T, d), from which precision and recall are computed;
    (0, T) without keywords. Raises BadFeature for a row that is zero or not finite.

    >>> compute_keyword_frame_cosines([[3.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]).tolist()
    [[1.0, 0.0]]
    """
    return _compute_cosines(
        require_feature_rows("keywords", keywords), normalise_rows("frame", require_feature_rows("frames", frames))
    )


def _compute_cosines(keywords: FloatArray, units: FloatArray) -> FloatArray:
    if len(keywords) == 0:
        return np.empty((0, len(units)))
    cosines: FloatArray = np.clip(normalise_rows("keyword", keywords) @ units.T, -1.0, 1.0)
    return cosines


def _combine_coarse_and_fine(cosines: FloatArray, coarse: float, weights: FloatArray | None) -> EVQAResult:
    """Return EVQAScore from the cosines (K, n) of keywords with frames or regions, at least one of both, and the coarse
    part. weights (K,): None weighs all keywords equally. There is a status instead of a score if all weights are 0, or
    precision and recall have opposite signs.

    P = sum_j w_j max_i S[j, i], R = mean_i max_j S[j, i], F = 2PR / (P + R), score = (C + F) / 2.
    """
    n_keywords = len(cosines)
    recall = float(cosines.max(axis=0).mean())
    if weights is not None and not weights.any():
        reason = "all keyword weights are 0, so precision has no value"
        return EVQAResult(recall=recall, coarse=coarse, n_keywords=n_keywords, status="zero_weights", reason=reason)
    precision = float(np.average(cosines.max(axis=1), weights=weights))
    if min(precision, recall) < 0 < max(precision, recall):
        return EVQAResult(
            precision=precision,
            recall=recall,
            coarse=coarse,
            n_keywords=n_keywords,
            status="negative_match",
            reason=f"precision {precision:.4f} and recall {recall:.4f} have opposite signs: no harmonic mean exists",
        )
    f1 = harmonic_mean(precision, recall)
    return EVQAResult(
        precision=precision,
        recall=recall,
        f1=f1,
        coarse=coarse,
        score=average_coarse_and_fine(coarse, f1),
        n_keywords=n_keywords,
    )


def _scale_weights(values: npt.ArrayLike, n_keywords: int) -> FloatArray:
    """Return keyword weights (K,) in float64, scaled so that the largest is 1; all zeros stay zeros. Raises ValueError
    for another number of weights, and for a weight that is negative or not finite.
    """
    weights = np.asarray(values, dtype=np.float64)
    if weights.shape != (n_keywords,):
        raise ValueError(
            f"keyword_weights have shape {weights.shape}: give one weight per keyword, {n_keywords} in all."
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError("keyword_weights hold a negative, NaN or infinite value: give finite weights of 0 or more.")
    return weights / weights.max() if weights.any() else weights


def _check_dimensions(n_dimensions: int, text: FloatArray, keywords: FloatArray) -> None:
    """Raise ValueError unless the rows of text and keyword features have as many columns as the video's features,
    `n_dimensions`. Without keywords only the text counts.
    """
    for name, rows in (("text", text), ("keywords", keywords)):
        if len(rows) and rows.shape[1] != n_dimensions:
            raise ValueError(
                f"{name} features have {rows.shape[1]} dimensions, the frames {n_dimensions}: "
                "encode all with one encoder."
            )
