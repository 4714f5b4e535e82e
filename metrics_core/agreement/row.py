"""A row of the agreement table: one number of one metric, and the names of what is no metric and of statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from metrics_core.intervals import JackknifeStatistics

ONE_RATER = "one rater"
"""The metric's name in rows of the human ceiling: each rater against the mean of the others, averaged over raters.

A rater counts by the items that they share with others; see `is_counted` for those who are left out.
"""
WITHOUT_ONE_RATER = "pooled without one rater"
"""The grouping in which a metric is held against the very means, on the very items, that ONE_RATER is held against."""
BY_RATER = "pooled by rater"
"""The grouping in which a metric is compared with each rater alone, pooled; the mean over raters (VATEX-EVAL)."""
KENDALL = "kendall_b"
"""The statistic in which a metric is compared with simple scores and with one more rater."""
CHANCE = "kendall_b_chance"
"""How often chance gives a `KENDALL` so far from 0, two-sided; `n` of such a row counts videos."""
RATERS = "raters"
"""The metric's name in rows of Krippendorff's alpha, whose n and n_undefined count ratings."""
CALIBRATED = "pairwise_accuracy_calibrated"
"""Pairwise accuracy where small differences of the metric are ties; how small was chosen on the other half of the
videos."""
SOFT = "soft_pairwise_accuracy"


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One number of the agreement table, with its interval over videos.

    aspect: what people rated. grouping: how captions were grouped, see `Grouping`; "pooled without system means" and
    "pooled without length" are partial correlations, "pooled by rater" is the mean over single raters, "pooled without
    one rater" over the means of all raters but one. value, low, high: None where undefined, and without an interval.
    n: the items of pooled, the videos of per_video, the systems of per_system and within_system that have a value.
    n_undefined: the items without a number on a side, or the groups without a value, which are left out.
    n_undefined_resamples: blocks of videos without which there is no value; they do not count for the interval.
    baseline: the metric knows nothing of quality.
    """

    metric: str
    aspect: str
    grouping: str
    statistic: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_undefined: int
    n_undefined_resamples: int
    baseline: bool


def build_agreement_rows(
    names: tuple[str, str, str],
    found: JackknifeStatistics,
    level: float,
    *,
    n_rated: int | None = None,
    baseline: bool = False,
) -> Iterator[AgreementRow]:
    """Yield a row for every statistic of one comparison.

    names: metric, aspect and grouping. n_rated: how many items people rated.
    """
    for statistic in found.values:
        each, n, n_undefined = (
            found.compute_estimate(statistic, level),
            found.n[statistic],
            found.n_undefined[statistic],
        )
        if n_rated is not None and names[2].startswith("pooled"):
            n_undefined = n_rated - n
        not_left = found.count_undefined_blocks(statistic)
        yield AgreementRow(*names, statistic, each.value, each.low, each.high, n, n_undefined, not_left, baseline)
