"""What raters say of each other, resampled: the human ceiling and Krippendorff's alpha."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics_core.agreement.correlation import mean_of
from metrics_core.agreement.groups import Resamples, quotient
from metrics_core.agreement.raters import LEVELS, alpha_of, krippendorff_alpha, rating_counts
from metrics_core.agreement.resampling import Draws
from metrics_core.arrays import FloatArray, IntArray

# Coincidences of ratings are kept per video where they hold up to this many numbers (128 MiB).
CELLS = 1 << 24


def mean_of_raters(by_rater: Sequence[dict[str, Resamples]]) -> dict[str, Resamples]:
    """Average the raters' statistics by grouping; a rater without a value is left out.

    n and n_undefined are those of the rater with the most items or groups.
    """
    if not by_rater:
        return {}
    return {
        grouping: Resamples(
            {name: _mean(found, name) for name in found[0].values},
            {name: _mean_resampled(found, name) for name in found[0].values},
            {name: max(each.n[name] for each in found) for name in found[0].values},
            {name: min(each.n_undefined[name] for each in found) for name in found[0].values},
        )
        for grouping in by_rater[0]
        for found in [[rater[grouping] for rater in by_rater]]
    }


def _mean(found: Sequence[Resamples], name: str) -> float | None:
    """The mean of the raters' values of one statistic."""
    return mean_of([value for each in found if (value := each.values[name]) is not None])


def _mean_resampled(found: Sequence[Resamples], name: str) -> FloatArray:
    """The same for every resample."""
    resampled = np.stack([each.resampled[name] for each in found])
    defined = np.isfinite(resampled)
    return quotient(np.where(defined, resampled, 0).sum(axis=0), defined.sum(axis=0).astype(np.float64))


def alpha_rows(ratings: FloatArray, video: IntArray, draws: Draws) -> Resamples:
    """Krippendorff's alpha at every level, with resamples of videos unless ratings have very many values.

    n is the number of ratings that can be paired, n_undefined of those that cannot.
    """
    found = {f"krippendorff_{level}": krippendorff_alpha(ratings, level) for level in LEVELS}
    n_ratings = int((~np.isnan(ratings)).sum())
    values, counts = rating_counts(ratings)
    n_videos = draws.videos.shape[1]
    resampled = {name: np.zeros(0) for name in found}
    if 0 < n_videos * values.size**2 <= CELLS:
        by_video = coincidences_by(counts, video, n_videos)
        together = (draws.videos @ by_video.reshape(n_videos, -1)).reshape(-1, values.size, values.size)
        resampled = {name: alpha_of(values, together, alpha.level) for name, alpha in found.items()}
    return Resamples(
        {name: alpha.value for name, alpha in found.items()},
        resampled,
        {name: alpha.n_pairable for name, alpha in found.items()},
        {name: n_ratings - alpha.n_pairable for name, alpha in found.items()},
    )


def coincidences_by(counts: FloatArray, video: IntArray, n_videos: int) -> FloatArray:
    """Coincidences of every video's ratings, see `coincidences`: (videos, values, values)."""
    weights = 1 / np.maximum(counts.sum(axis=1) - 1, 1)
    found = np.zeros((n_videos, counts.shape[1], counts.shape[1]))
    for one, other in np.ndindex(found.shape[1:]):
        together = counts[:, one] * (counts[:, other] - (one == other))
        found[:, one, other] = np.bincount(video, weights * together, n_videos)
    return found
