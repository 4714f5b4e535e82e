"""The results of calibration: a threshold, its agreement with the labels, and its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from metrics_core.arithmetic import ratio

Objective = Literal["f1", "youden", "mcc", "coverage"]
Status = Literal["ok", "no_labels", "no_positive", "no_negative"]


class CalibrationWarning(UserWarning):
    """Warning that a threshold is defined, but probably not useful to the caller. A call issues at most one, with all
    its sentences.
    """


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
    def precision(self) -> float | None:
        """The share of the predictions of yes that are right, in [0, 1]; None without a prediction of yes."""
        return ratio(self.true_positive, self.n_predicted)

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
class ThresholdInterval:
    """The percentile bootstrap interval of a threshold: the limits of the middle `level` of the thresholds of resampled
    label sets. n_groups: the number of groups (single labels, or the labels of a video) that a resample draws with
    replacement. n_undefined of the n_resamples resamples had no threshold and are left out. low and high are None where
    none had one, or with fewer than two groups.
    """

    low: float | None
    high: float | None
    level: float
    n_groups: int
    n_resamples: int
    n_undefined: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold on scores, which predicts yes for score >= value, and its agreement (`counts`) with `n` labels, of
    which `n_positive` say yes. value and counts are None where `status` is not "ok"; `reason` then says why in words.
    pooled: whether a dimension got the threshold of all dimensions in place of its own. warnings: sentences on why the
    threshold may mislead. interval: None where none was computed.

    A status other than "ok" means that there is no label at all ("no_labels"), no label that says yes ("no_positive")
    or, for objectives that need both kinds, no label that says no ("no_negative"). Where `pooled` is true it is the
    status of all dimensions' labels.
    """

    value: float | None
    objective: Objective
    n: int
    n_positive: int
    counts: Confusion | None
    status: Status = "ok"
    reason: str | None = None
    pooled: bool = False
    warnings: tuple[str, ...] = ()
    interval: ThresholdInterval | None = None
