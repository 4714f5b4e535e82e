"""EVQAScore from features: best cosines between keywords and frames, and the whole text against the pooled video."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrics_core.evqa.features import BadFeature, FloatArray, FrameFeatures, feature_rows, prepare_frames, unit_rows
from metrics_core.evqa.result import EVQAResult, harmonic_mean, midpoint


def evqa_from_features(
    frames: npt.ArrayLike,
    keywords: npt.ArrayLike,
    text: npt.ArrayLike,
    *,
    keyword_weights: npt.ArrayLike | None = None,
    regions: npt.ArrayLike | None = None,
) -> EVQAResult:
    """EVQAScore (section 3 of arXiv 2411.06908) of one text and one video, from features of one image-text encoder.

    frames: (T, d), the sampled frames. keywords: (K, d), one row per keyword. text: (d,), the whole text.
    keyword_weights: (K,), not negative, scaled to sum 1 inside; None weighs all alike, as EVQAScore does.
    regions: (n, d), crops that replace the frames in precision and recall. Features may be raw: they are normalised
    in float64. For many texts of one video call `prepare_frames` once and `evqa_of_text` per text.

    What a single video or text can cause is a status of the result. Raises ValueError for arrays whose shapes do not
    fit together and for weights that are negative or not finite.

    >>> result = evqa_from_features(frames=[[2, 0], [0, 1]], keywords=[[1, 0]], text=[0, 3])
    >>> result.precision, result.recall, round(result.f1, 4), round(result.coarse, 4), round(result.score, 4)
    (1.0, 0.5, 0.6667, 0.7071, 0.6869)
    """
    return evqa_of_text(prepare_frames(frames, regions), keywords, text, keyword_weights=keyword_weights)


def evqa_of_text(
    video: FrameFeatures,
    keywords: npt.ArrayLike,
    text: npt.ArrayLike,
    *,
    keyword_weights: npt.ArrayLike | None = None,
) -> EVQAResult:
    """EVQAScore of one text and a prepared video: the same number as `evqa_from_features`, bit for bit.

    >>> video = prepare_frames([[2, 0], [0, 1]])
    >>> [evqa_of_text(video, keywords, [0, 3]).status for keywords in ([[1, 0]], [])]
    ['ok', 'no_keywords']
    """
    text_row = np.asarray(text, dtype=np.float64)
    if text_row.ndim != 1 or text_row.size == 0:
        raise ValueError(f"text has shape {text_row.shape}: give the feature (d,) of the whole text.")
    keyword_rows = feature_rows("keywords", keywords)
    weights = None if keyword_weights is None else checked_weights(keyword_weights, len(keyword_rows))
    n_keywords = len(keyword_rows)
    if video.status != "ok":
        return EVQAResult(n_keywords=n_keywords, status=video.status, reason=video.reason)
    check_dimensions(video.pooled.size, text_row[None], keyword_rows)
    try:
        coarse = float(np.clip(unit_rows("text", text_row[None])[0] @ video.pooled, -1.0, 1.0))
        if n_keywords == 0:
            return EVQAResult(coarse=coarse, n_keywords=0, status="no_keywords", reason="the text has no keyword")
        cosines = np.clip(unit_rows("keyword", keyword_rows) @ video.local.T, -1.0, 1.0)
    except BadFeature as error:
        return EVQAResult(n_keywords=n_keywords, status="bad_feature", reason=str(error))
    return joined(cosines, coarse, weights)


def joined(cosines: FloatArray, coarse: float, weights: FloatArray | None) -> EVQAResult:
    """Fine and coarse part of the score; `cosines` is (keywords, frames or regions), both at least 1.

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
        score=midpoint(coarse, f1),
        n_keywords=n_keywords,
    )


def checked_weights(values: npt.ArrayLike, n_keywords: int) -> FloatArray:
    """Weights (K,) in float64, the largest 1 unless all are 0; ValueError for what cannot be a weight."""
    weights = np.asarray(values, dtype=np.float64)
    if weights.shape != (n_keywords,):
        raise ValueError(
            f"keyword_weights have shape {weights.shape}: give one weight for each of {n_keywords} keywords."
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError("keyword_weights hold a negative, NaN or infinite value: give finite weights of 0 or more.")
    return weights / weights.max() if weights.any() else weights


def check_dimensions(video: int, text: FloatArray, keywords: FloatArray) -> None:
    """ValueError unless text and keywords have the video's number of dimensions."""
    for name, rows in (("text", text), ("keywords", keywords)):
        if len(rows) and rows.shape[1] != video:
            raise ValueError(
                f"{name} features have {rows.shape[1]} dimensions, the frames {video}: encode all with one encoder."
            )
