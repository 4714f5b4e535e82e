"""The result of calibration: a threshold with its interval, its counts, and how good it is on other videos."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from metrics_core.arithmetic import ratio
from metrics_core.intervals import Estimate

Objective = Literal["f1", "youden", "mcc", "coverage"]
_LabelStatus = Literal["ok", "no_labels", "no_positive", "no_negative"]
_RatedStatus = Literal["no_ratings", "few_ratings", "all_good", "none_good", "constant_scores", "no_better"]
Status = _LabelStatus | _RatedStatus


@dataclass(frozen=True, slots=True)
class Confusion:
    """Counts of how predictions and labels of yes and no agree, with the rates that follow from them. In the name of a
    count, true or false says whether the prediction is right, positive or negative whether it is yes or no. A rate is
    None where its denominator is 0.
    """

    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int

    @property
    def n(self) -> int:
        """The number of labels."""
        return self.n_positive + self.false_positive + self.true_negative

    @property
    def n_positive(self) -> int:
        """The number of labels that say yes."""
        return self.true_positive + self.false_negative

    @property
    def n_predicted(self) -> int:
        """The number of predictions that say yes."""
        return self.true_positive + self.false_positive

    @property
    def prevalence(self) -> float | None:
        """The share of labels that say yes, in [0, 1]; None without a label."""
        return ratio(self.n_positive, self.n)

    @property
    def predicted_rate(self) -> float | None:
        """The share of predictions that say yes, in [0, 1]; None without a label."""
        return ratio(self.n_predicted, self.n)

    @property
    def accuracy(self) -> float | None:
        """The share of predictions that equal the label, in [0, 1]; None without a label."""
        return ratio(self.true_positive + self.true_negative, self.n)

    @property
    def recall(self) -> float | None:
        """The share of the labels of yes that are predicted as yes, in [0, 1]; None without a label of yes."""
        return ratio(self.true_positive, self.n_positive)

    @property
    def f1(self) -> float | None:
        """F1 of yes, 2TP / (2TP + FP + FN), in [0, 1]; None where neither a label nor a prediction says yes."""
        return ratio(2 * self.true_positive, self.n_positive + self.n_predicted)

    @property
    def all_positive_f1(self) -> float | None:
        """F1 of always predicting yes, 2p / (1 + p) with prevalence p; None without a positive label."""
        return ratio(2 * self.n_positive, self.n_positive + self.n) if self.n_positive else None

    @property
    def youden(self) -> float | None:
        """Youden's J, recall minus false positive rate, in [-1, 1]. None unless there are labels of yes and labels of
        no.
        """
        n_negative = self.n - self.n_positive
        return ratio(
            self.true_positive * n_negative - self.false_positive * self.n_positive, self.n_positive * n_negative
        )

    @property
    def mcc(self) -> float | None:
        """Matthews' correlation of predictions and labels, in [-1, 1]. None where the predictions or the labels are all
        the same.
        """
        margins = self.n_positive * (self.n - self.n_positive) * self.n_predicted * (self.n - self.n_predicted)
        association = self.true_positive * self.true_negative - self.false_positive * self.false_negative
        return association / math.sqrt(margins) if margins else None


@dataclass(frozen=True, slots=True)
class BaselineYouden:
    """How well thresholds on the simple score `name` separate good samples from other ones. held_out: Youden's J, in
    [-1, 1], on videos that the thresholds were not chosen on. gain: how much higher J is for the metric, with an
    interval for which both leave out the same videos.
    """

    name: str
    held_out: Estimate
    gain: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A threshold on scores: n_kept of n reach it, n_kept_good of the n_good good ones. Where there is none, `status`
    and `reason` explain why. Good means a label of yes, or a rating of `least_rating` or higher; both counts are None
    for a threshold that keeps a share. held_out, baselines: Youden's J on other videos, its own and simple scores'.

    objective: what it is best for, such as f1, or the name by which recipes refer to it, such as "keep 0.125". low,
    high: its 95 % interval over the n_videos videos (or other groups), None where none was computed or no resample had
    a threshold; n_undefined resamples had none. pooled: whether a dimension got the threshold of all dimensions in
    place of its own. warnings: sentences on why it may mislead. is_least_set: whether least_rating was given.

    metric, kind: the scores that it is for, of captions or question-answer pairs. aspect: what people judged, an aspect
    of ratings or a dimension of keypoints. shard: None for a whole dataset.
    """

    objective: str
    n: int
    at_least: float | None = None
    n_kept: int | None = None
    n_good: int | None = None
    n_kept_good: int | None = None
    n_videos: int | None = None
    low: float | None = None
    high: float | None = None
    n_undefined: int = 0
    status: Status = "ok"
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    pooled: bool = False
    least_rating: float | None = None
    is_least_set: bool = False
    held_out: Estimate | None = None
    baselines: tuple[BaselineYouden, ...] = ()
    metric: str = ""
    kind: str = "caption"
    aspect: str = ""
    shard: int | None = None

    @property
    def counts(self) -> Confusion | None:
        """How passing agrees with being good, on the scores that the threshold was chosen on. None without a threshold,
        and for one that keeps a share.
        """
        if self.n_kept is None or self.n_good is None or self.n_kept_good is None:
            return None
        n_missed, n_false = self.n_good - self.n_kept_good, self.n_kept - self.n_kept_good
        return Confusion(self.n_kept_good, n_false, n_missed, self.n - self.n_kept - n_missed)

    @property
    def kept_good(self) -> float | None:
        """The share of the good samples that pass, in [0, 1]; None without a good sample or without `counts`."""
        return self.counts.recall if self.counts else None

    @property
    def kept_others(self) -> float | None:
        """The share of the other samples that pass, in [0, 1]; None without another sample or without `counts`."""
        return ratio(self.counts.false_positive, self.n - self.counts.n_positive) if self.counts else None

    @property
    def youden(self) -> float | None:
        """Youden's J on the samples that the threshold was chosen on, so too favourable: kept_good less kept_others.
        None where one of them is None.
        """
        if self.kept_good is None or self.kept_others is None:
            return None
        return self.kept_good - self.kept_others

    @property
    def strongest_baseline(self) -> BaselineYouden | None:
        """The simple score with the highest Youden's J on other videos. None without one above 0, which is the J of
        keeping everything.
        """
        best = max(self.baselines, key=lambda baseline: baseline.held_out.value or 0.0, default=None)
        return best if best is not None and (best.held_out.value or 0.0) > 0 else None
