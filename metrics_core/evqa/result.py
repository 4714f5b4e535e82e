"""The result of EVQAScore, and the score of a question-answer pair computed from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from metrics_core.arithmetic import harmonic_mean

Status = Literal["ok", "no_frames", "no_keywords", "bad_feature", "zero_weights", "negative_match"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EVQAResult:
    """EVQAScore of one text and one video, with its parts. score: (coarse + f1) / 2, a number exactly when `status` is
    "ok". coarse: cosine of the whole text with the video. precision: mean over keywords of the best cosine with a
    frame; recall: mean over frames of the best cosine with a keyword. f1: their harmonic mean.

    Regions take the place of frames if there are any, and keywords may have weights in precision. Numbers lie in [-1,
    1], up to rounding; one that is not defined is None. Unless `status` is "ok", `reason` says in words what is wrong:

    ==============  ============================================================  =========================
    status          meaning                                                       numbers that are given
    ==============  ============================================================  =========================
    ok              scored                                                        all
    no_frames       the video has no sampled frame                                none
    no_keywords     the text has no keyword                                       coarse
    bad_feature     a feature is zero, NaN or infinite, or the frames cancel out  none
    zero_weights    all keyword weights are 0                                     recall, coarse
    negative_match  precision and recall have opposite signs: no harmonic mean    precision, recall, coarse
    ==============  ============================================================  =========================
    """

    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    coarse: float | None = None
    score: float | None = None
    n_keywords: int
    status: Status = "ok"
    reason: str | None = None

    @property
    def full_precision(self) -> float | None:
        """EMScore's full_P, (coarse + precision) / 2; None where one of them is not defined."""
        return average_coarse_and_fine(self.coarse, self.precision)

    @property
    def full_recall(self) -> float | None:
        """EMScore's full_R, (coarse + recall) / 2; None where one of them is not defined."""
        return average_coarse_and_fine(self.coarse, self.recall)

    @property
    def raw_f1(self) -> float | None:
        """2PR / (P + R) of precision P and recall R whatever the signs, as in the public codes: 0 where P + R is 0,
        None where P or R is not defined.

        Use it only to compare with numbers of these codes: where the signs differ, it lies outside [-1, 1].
        """
        if self.precision is None or self.recall is None:
            return None
        return harmonic_mean(self.precision, self.recall)

    @property
    def raw_score(self) -> float | None:
        """(coarse + raw_f1) / 2, as in the public codes; None where one of them is not defined. It equals `score` if
        `score` is a number.
        """
        return average_coarse_and_fine(self.coarse, self.raw_f1)


def qa_score(result: EVQAResult) -> float | None:
    """Return the score of a question-answer pair: score * ln(n + 1), with the EVQAScore and the number n of keywords in
    `result`; None without a score.

    The factor grows from 0.69 (n = 1) to 2.77 (n = 15), so between pairs of unequal n it mostly counts keywords. Report
    `score` and `n_keywords` with it.

    >>> qa_score(EVQAResult(score=0.25, n_keywords=1))
    0.17328679513998632
    """
    return None if result.score is None else result.score * math.log(result.n_keywords + 1)


def average_coarse_and_fine(coarse: float | None, fine: float | None) -> float | None:
    """Return the mean of the coarse and the fine part of a score; None where one of them is None."""
    return None if coarse is None or fine is None else (coarse + fine) / 2
