"""The result of a threshold by ratings: the threshold, its interval, and its worth compared with simple scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RatedStatus = Literal["ok", "no_ratings", "few_ratings", "all_good", "none_good", "constant_scores", "no_better"]


@dataclass(frozen=True, slots=True)
class YoudenEstimate:
    """Youden's J, or a difference of two (`value`), with its 95 % interval over videos from `low` to `high`; both are
    None without an interval.
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class BaselineYouden:
    """How well thresholds on the simple score `name` separate good samples from other ones. held_out: Youden's J, in
    [-1, 1], on videos that the thresholds were not found on. gain: how much higher J is for the metric, with an
    interval that leaves out the same videos of both.
    """

    name: str
    held_out: YoudenEstimate
    gain: YoudenEstimate


@dataclass(frozen=True, slots=True)
class RatedThreshold:
    """A threshold on scores found by ratings: samples with a score of `at_least` or more stay. Where there is none,
    `status` is not "ok" and `reason` says why. n samples have a score and a rating, from n_videos videos; n_good of
    them are rated `least_rating` or higher. kept_good, kept_others: the shares of the good and of the other samples
    that stay. held_out: Youden's J on videos that the threshold was not found on; `baselines` hold that of simple
    scores.

    least_rating is None without a rating. at_least, kept_good and kept_others are set exactly when `status` is "ok";
    low, high, held_out and baselines are set by `calibrate_rated_threshold` only. low, high: the 95 % interval of the
    threshold over videos, None where no resample had a threshold.
    """

    status: RatedStatus
    reason: str | None
    least_rating: float | None
    n: int
    n_good: int
    n_videos: int
    at_least: float | None = None
    low: float | None = None
    high: float | None = None
    kept_good: float | None = None
    kept_others: float | None = None
    held_out: YoudenEstimate | None = None
    baselines: tuple[BaselineYouden, ...] = ()

    @property
    def youden(self) -> float | None:
        """Youden's J on the samples that the threshold was found on, kept_good less kept_others, in (0, 1]. It is too
        favourable; None without a threshold.
        """
        if self.kept_good is None or self.kept_others is None:
            return None
        return self.kept_good - self.kept_others

    @property
    def strongest_baseline(self) -> BaselineYouden | None:
        """The simple score with the highest Youden's J on other videos. None without one above 0, which is the J of
        keeping everything.
        """
        best = max(self.baselines, key=lambda baseline: baseline.held_out.value, default=None)
        return best if best is not None and best.held_out.value > 0 else None
