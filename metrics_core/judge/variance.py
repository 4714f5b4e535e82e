"""Parts of the variance of a judge's answers: systems, videos, texts, and the judge, asked again about a text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import FloatArray, IntArray, number_groups

VariancePart = Literal["system", "video", "text", "answer"]

# Below this, coefficients differ by rounding only, and two parts cannot be separated.
_SMALLEST = 1e-9


@dataclass(frozen=True, slots=True)
class JudgeVariance:
    """The variance of a judge's answers, in parts: between systems, between videos, between texts otherwise, and
    between answers about one text, which is the judge's own. A part that the texts do not show is left out: systems
    where there is one only, and videos where all have a single text.

    n_answers, n_texts: how many there are. variances: by part, at least 0. mean_difference: of two answers about one
    text, the mean over the texts with several answers.
    """

    n_answers: int
    n_texts: int
    variances: Mapping[VariancePart, float]
    mean_difference: float

    @property
    def shares(self) -> Mapping[VariancePart, float] | None:
        """The shares of the parts in the variance of one answer, which sum to 1; None where all answers are equal."""
        total = sum(self.variances.values())
        return {part: variance / total for part, variance in self.variances.items()} if total > 0 else None

    @property
    def deviation(self) -> float:
        """The standard deviation of one answer from the mean of very many about the same text."""
        return math.sqrt(self.variances["answer"])


def compute_judge_variance(
    values: npt.ArrayLike, texts: Sequence[object], videos: Sequence[object], systems: Sequence[object]
) -> JudgeVariance | None:
    """Compute the parts of the variance of answers (n,) about texts; None unless there are two texts, and one of them
    has two answers. texts, videos, systems: names by answer; every text has one video and one system, and all may have
    unequal numbers. Raises ValueError for a value that is no finite number, and for unequal lengths.

    The parts are random effects that add up, estimated by moments (Henderson's first method): the sum over the groups
    of a part of (sum of the group)^2 / (its size) is linear in all variances, which gives as many equations as parts.
    With equal numbers this is the analysis of variance. The estimates are unbiased, but for those below 0, which become
    0.

    >>> found = compute_judge_variance([0.0, 0.2, 0.8, 1.0], ["a", "a", "b", "b"], ["v", "v", "w", "w"], ["s"] * 4)
    >>> {part: round(variance, 3) for part, variance in found.variances.items()}, round(found.mean_difference, 3)
    ({'text': 0.31, 'answer': 0.02}, 0.2)
    """
    answers = np.asarray(values, dtype=np.float64)
    if not len(answers) == len(texts) == len(videos) == len(systems):
        raise ValueError("values, texts, videos and systems have unequal lengths: give one of each for every answer")
    if not np.isfinite(answers).all():
        raise ValueError("an answer is no finite number: leave out answers without a value")
    of_text = number_groups(texts)
    n_texts = int(of_text.max()) + 1 if of_text.size else 0
    if n_texts < 2 or answers.size == n_texts:
        return None
    groups: dict[VariancePart, IntArray] = {"text": of_text, "answer": np.arange(answers.size)}
    others: dict[VariancePart, IntArray] = {"video": number_groups(videos), "system": number_groups(systems)}
    for part, numbers in others.items():
        wider = {part: numbers, **groups}
        if _are_distinct(list(wider.values())):
            groups = wider
    return JudgeVariance(
        answers.size, n_texts, _estimate_variances(answers, groups), _compute_mean_difference(answers, of_text)
    )


def _estimate_variances(answers: FloatArray, groups: Mapping[VariancePart, IntArray]) -> dict[VariancePart, float]:
    """Solve for the variances of all parts, and for the square of the mean."""
    # The mean has no part in the differences of the sums; without it they lose no digits.
    centred = answers - answers.mean()
    factors = [np.zeros(answers.size, dtype=np.int64), *groups.values()]
    sums = [float((np.bincount(one, centred) ** 2 / np.bincount(one)).sum()) / answers.size for one in factors]
    solved = np.linalg.solve(_build_coefficients(factors), sums)
    # Equal answers differ by rounding after their mean is subtracted.
    rounding = (np.finfo(np.float64).eps * float(np.abs(answers).max())) ** 2 * answers.size
    return {
        part: float(variance) if variance > rounding else 0.0 for part, variance in zip(groups, solved[1:], strict=True)
    }


def _are_distinct(groups: Sequence[IntArray]) -> bool:
    """Whether the variances of these parts can be separated from one another and from the mean."""
    coefficients = _build_coefficients([np.zeros(groups[0].size, dtype=np.int64), *groups])
    return int(np.linalg.matrix_rank(coefficients, tol=_SMALLEST)) == len(coefficients)


def _build_coefficients(factors: Sequence[IntArray]) -> FloatArray:
    """Return how often the variance of every factor (column) is in the mean of squares over the groups of one (row)."""
    return np.array([[_count_squares(rows, columns) for columns in factors] for rows in factors])


def _count_squares(rows: IntArray, columns: IntArray) -> float:
    """Return the sum of (answers that a group of both has)^2 / (answers of the group of rows), divided by all."""
    pairs, counts = np.unique(rows * (columns.max() + 1) + columns, return_counts=True)
    sizes = np.bincount(rows)[pairs // (columns.max() + 1)]
    return float((counts.astype(np.float64) ** 2 / sizes).sum()) / rows.size


def _compute_mean_difference(answers: FloatArray, of_text: IntArray) -> float:
    """Return the mean absolute difference of two answers about one text, of the texts with several."""
    differences = []
    by_text = answers[np.lexsort((answers, of_text))]
    for ordered in np.split(by_text, np.cumsum(np.bincount(of_text))[:-1]):
        n = ordered.size
        if n < 2:
            continue
        # A number is the greater one of as many pairs as there are numbers before it.
        differences.append(float(((2 * np.arange(n) - n + 1) * ordered).sum()) / (n * (n - 1) / 2))
    return float(np.mean(differences))
