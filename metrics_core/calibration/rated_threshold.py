"""The result of a cut by ratings: the cut, its interval, and what it is worth beside baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RatedStatus = Literal["ok", "no_ratings", "few_ratings", "all_good", "none_good", "constant_scores", "no_better"]


@dataclass(frozen=True, slots=True)
class YoudenEstimate:
    """A number with its 95 % interval over videos; low and high are None where it has none."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class BaselineYouden:
    """Youden's J of cuts on a simple number, in [-1, 1], on videos that they were not found on.

    gain: how much higher it is for the metric, without the same videos.
    """

    name: str
    held_out: YoudenEstimate
    gain: YoudenEstimate


@dataclass(frozen=True, slots=True)
class RatedThreshold:
    """A cut on scores: those of `at_least` or more stay, which tells good samples from the others best.

    n samples have a score and a rating, from n_videos videos; n_good of them are rated `least_rating` or higher (None
    without a rating). Everything else is set exactly when `status` is "ok"; otherwise `reason` says why there is no
    cut. low, high: the 95 % interval of the cut over videos, None where no resample had a cut. kept_good, kept_others:
    the shares in [0, 1] of the good samples and of the others that stay. held_out: Youden's J on videos that the cut
    was not found on; `baselines` are beside it.
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
        """Youden's J on the samples that the cut was found on, in (0, 1]: it flatters the cut."""
        if self.kept_good is None or self.kept_others is None:
            return None
        return self.kept_good - self.kept_others

    @property
    def strongest_baseline(self) -> BaselineYouden | None:
        """The baseline that reaches most on other videos; None without one above keeping everything, which has 0."""
        best = max(self.baselines, key=lambda each: each.held_out.value, default=None)
        return best if best is not None and best.held_out.value > 0 else None
