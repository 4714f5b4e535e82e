"""Chooses the threshold on scores that best separates samples that people rate as good from other ones, and measures
it on other videos.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import BoolArray, FloatArray, IntArray
from metrics_core.calibration.result import BaselineYouden, Status, Threshold
from metrics_core.calibration.search import find_best_threshold
from metrics_core.intervals import Estimate, jackknife_estimate

FEWEST_SAMPLES, FEWEST_VIDEOS = 20, 10
"""The smallest numbers of samples and of videos for a threshold; with fewer it is chance."""
FOLDS = 5


def find_rated_threshold(
    scores: npt.ArrayLike,
    ratings: npt.ArrayLike,
    videos: Sequence[object],
    baselines: Mapping[str, npt.ArrayLike] | None = None,
    *,
    least_rating: float | None = None,
    n_resamples: int = 0,
    seed: int = 0,
) -> Threshold:
    """Find the threshold t at which keeping scores >= t best separates samples that people rate as good, by Youden's J;
    a status and a reason where there is none. With resamples it has its interval, and its J on other videos next to
    that of simple scores.

    scores, ratings: (n,), NaN for none, where a rating is the mean over raters. videos: (n,). baselines: simple scores,
    (n,) by name. least_rating: the lowest rating of a good sample, by default the median.

    Where the median of all ratings is the lowest rating, the default is the next one above it. The threshold is one of
    the scores; of equally good ones the highest counts.

    Youden's J is the share of the good samples that stay less the share of the other samples that stay: 1 for a perfect
    threshold, 0 for keeping everything and for chance. docs/selections.md says why F1 does not suit.

    The interval of the threshold resamples videos. `held_out` is J over the samples of all videos, where every sample
    is decided by a threshold that was chosen on other videos: videos are dealt into five parts, and the threshold for a
    part is chosen on the other four. Its interval leaves out one video at a time. The baselines, (n,) by name, are
    treated in the same way, except that they may select in either direction, and a baseline without a number for one of
    the samples is left out. Keeping everything is the baseline whose J is 0. Where four parts give no threshold with J
    above 0, the fifth is kept whole.

    Raises ValueError for shapes that do not fit, and for a lowest rating that is not finite.

    >>> scores, ratings = [0.9, 0.8, 0.7, 0.3, 0.2] * 4, [5, 4, 4, 2, 1] * 4
    >>> threshold = find_rated_threshold(scores, ratings, range(20), least_rating=3, n_resamples=100)
    >>> threshold.at_least, threshold.n_good, threshold.youden, threshold.held_out.value
    (0.7, 12, 1.0, 1.0)
    >>> find_rated_threshold(scores, ratings, range(20), least_rating=6).reason
    'no rating is at least 6: lower the lowest rating of a good sample'
    """
    values, means = _require_scores_and_ratings(scores, ratings, len(videos), least_rating)
    is_rated = np.isfinite(means)
    kept = is_rated & np.isfinite(values)
    video = np.unique(np.asarray(videos)[kept], return_inverse=True)[1].astype(np.int64)
    if not is_rated.any():
        return Threshold(
            objective="youden", n=0, n_good=0, n_videos=0, status="no_ratings", reason="no sample is rated"
        )
    least = _choose_least_good_rating(means[is_rated]) if least_rating is None else float(least_rating)
    values, good = values[kept], means[kept] >= least
    rated = Threshold(
        objective="youden",
        n=values.size,
        n_good=int(good.sum()),
        n_videos=int(video.max(initial=-1)) + 1,
        least_rating=least,
        is_least_set=least_rating is not None,
    )
    status, reason = _explain_undefined(values, rated)
    if status != "ok":
        return replace(rated, status=status, reason=reason)
    threshold = find_best_threshold(values, good, "youden", video.tolist(), n_resamples=n_resamples, seed=seed)
    if not (threshold.youden or 0.0) > 0:
        reason = "no threshold keeps more of the good samples than of the others"
        return replace(rated, status="no_better", reason=reason)
    threshold = replace(threshold, least_rating=least, is_least_set=rated.is_least_set, warnings=())
    if not n_resamples:
        return threshold
    others = {name: np.asarray(numbers, dtype=np.float64)[kept] for name, numbers in (baselines or {}).items()}
    complete = {name: numbers for name, numbers in others.items() if np.isfinite(numbers).all()}
    held_out, compared = _compute_held_out(values, good, video, complete, seed)
    return replace(threshold, held_out=held_out, baselines=compared)


def _require_scores_and_ratings(
    scores: npt.ArrayLike, ratings: npt.ArrayLike, n_videos: int, least_rating: float | None
) -> tuple[FloatArray, FloatArray]:
    """Return scores and ratings as arrays (n,). Raises ValueError as `find_rated_threshold` does."""
    values, means = np.asarray(scores, dtype=np.float64), np.asarray(ratings, dtype=np.float64)
    if values.ndim != 1 or means.shape != values.shape or n_videos != values.size:
        raise ValueError(
            f"scores have shape {values.shape}, ratings {means.shape}, and there are {n_videos} videos: "
            "give a score, a rating and a video for every sample, (n,)."
        )
    if least_rating is not None and not np.isfinite(least_rating):
        raise ValueError(f"least_rating is {least_rating}: give a finite rating.")
    return values, means


def _choose_least_good_rating(ratings: FloatArray) -> float:
    """Return the median, or where nothing is below it, the next rating above it."""
    median, lowest = float(np.median(ratings)), float(ratings.min())
    return median if median > lowest else float(ratings[ratings > lowest].min(initial=ratings.max()))


def _explain_undefined(scores: FloatArray, rated: Threshold) -> tuple[Status, str | None]:
    """Return the status and the reason where no search is possible; "ok" and None where it is."""
    n, n_videos, least = rated.n, rated.n_videos or 0, rated.least_rating
    if n < FEWEST_SAMPLES or n_videos < FEWEST_VIDEOS:
        needed = f"a threshold needs {FEWEST_SAMPLES} samples of {FEWEST_VIDEOS} videos"
        samples, videos = f"{n} rated sample{'' if n == 1 else 's'}", f"{n_videos} video{'' if n_videos == 1 else 's'}"
        has = f"{samples} of {videos} {'has' if n == 1 else 'have'} a score, and {needed}"
        return "few_ratings", has if n else f"no rated sample has a score, and {needed}"
    if rated.n_good == n:
        return "all_good", f"every rating is at least {least:g}: raise the lowest rating of a good sample"
    if rated.n_good == 0:
        return "none_good", f"no rating is at least {least:g}: lower the lowest rating of a good sample"
    if scores.min() == scores.max():
        return "constant_scores", f"all {n} scores are {scores[0]:g}: no threshold separates them"
    return "ok", None


def _compute_held_out(
    scores: FloatArray,
    good: BoolArray,
    video_of: IntArray,
    baselines: Mapping[str, FloatArray],
    seed: int,
) -> tuple[Estimate, tuple[BaselineYouden, ...]]:
    """Compute J, on videos that they were not chosen on, of thresholds on scores and on baselines."""
    n_videos = int(video_of.max()) + 1
    part_of_video = np.random.default_rng(seed).permutation(n_videos) % FOLDS
    part = part_of_video[video_of]
    rules = [
        _decide_held_out([scores], good, part),
        *[_decide_held_out([values, -values], good, part) for values in baselines.values()],
    ]
    # By video: good samples, other samples, and for each rule the good ones and the other ones that it keeps.
    columns = [good, ~good, *[side for rule in rules for side in (rule & good, rule & ~good)]]
    by_video: FloatArray = np.stack([np.bincount(video_of, column, n_videos) for column in columns], axis=1)
    total = by_video.sum(axis=0, keepdims=True)
    (exact,), jackknife_values = _youden(total), _youden(total - by_video)
    held_out = [jackknife_estimate(float(exact[rule]), jackknife_values[:, rule]) for rule in range(exact.size)]
    gains = [
        jackknife_estimate(
            float(exact[0] - exact[rule]), jackknife_values[:, 0] - jackknife_values[:, rule], bounds=(-2.0, 2.0)
        )
        for rule in range(exact.size)
    ]
    named = zip(baselines, held_out[1:], gains[1:], strict=True)
    return held_out[0], tuple(BaselineYouden(*numbers) for numbers in named)


def _decide_held_out(candidates: Sequence[FloatArray], good: BoolArray, part: IntArray) -> BoolArray:
    """Decide whether each sample stays (n,), by the best threshold on one of the candidates in the other parts."""
    stays = np.ones(good.size, dtype=np.bool_)
    for number in range(FOLDS):
        inside, best = part == number, 0.0
        for numbers in candidates:
            threshold = find_best_threshold(numbers[~inside], good[~inside], "youden")
            reached = threshold.counts.youden if threshold.counts else None
            if threshold.at_least is not None and reached is not None and reached > best:
                best, stays[inside] = reached, numbers[inside] >= threshold.at_least
    return stays


def _youden(sums: FloatArray) -> FloatArray:
    """Compute Youden's J (.., rules) of sums by the columns of `_compute_held_out`; not finite where one kind is
    missing.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        youden: FloatArray = sums[:, 2::2] / sums[:, :1] - sums[:, 3::2] / sums[:, 1:2]
    return youden
