"""A row of the agreement table, and the names that its columns hold for raters, groupings and statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from metrics_core.intervals import JackknifeStatistics

ONE_RATER = "one rater"
"""The metric's name in rows of the human ceiling: every rater compared with the mean of the other raters, averaged over
raters.

A rater counts by the number of items that they share with others; see `mark_ceiling_raters` for raters who are left
out.
"""
WITHOUT_ONE_RATER = "pooled without one rater"
"""The grouping in which a metric is compared with the same means, on the same items, as ONE_RATER is."""
BY_RATER = "pooled by rater"
"""The grouping in which a metric is compared with every rater's own ratings over all items; the mean over raters
(VATEX-EVAL).
"""
KENDALL = "kendall_b"
"""The statistic in which a metric is compared with simple scores and with one more rater."""
CHANCE = "kendall_b_chance"
"""The statistic that holds the two-sided p-value of `KENDALL`; `n` of such a row counts videos."""
RATERS = "raters"
"""The metric's name in rows of Krippendorff's alpha, whose n and n_undefined count ratings."""
CALIBRATED = "pairwise_accuracy_calibrated"
"""Pairwise accuracy where small differences of the metric count as ties; how small was chosen on the other half of the
videos.
"""
SOFT = "soft_pairwise_accuracy"


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """One row of the agreement table: one statistic of one metric, simple score or rater with people, for one aspect
    and grouping. value, low, high: the number with its interval over videos, None where undefined. n: the items, videos
    or systems with a value; n_undefined: those that are left out for lack of one. n_undefined_resamples: the blocks of
    videos without which there is no value. baseline: whether the row is one of a simple score.

    aspect: what people rated. grouping: how captions were grouped, see `Grouping`; "pooled without system means" and
    "pooled without length" are partial correlations, "pooled by rater" is the mean over single raters, "pooled without
    one rater" over the means of all raters but one. low and high are also None without an interval. n counts the items
    of pooled, the videos of per_video, the systems of per_system and within_system. Blocks without a value do not count
    for the interval.
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
    statistics: JackknifeStatistics,
    *,
    n_rated: int | None = None,
    baseline: bool = False,
) -> Iterator[AgreementRow]:
    """Yield an agreement row for every statistic of one comparison, in the order of `statistics.values`. names: metric,
    aspect and grouping. n_rated: how many items people rated; a pooled row then has n_rated - n as n_undefined.
    baseline: whether the rows belong to a simple score.
    """
    for statistic in statistics.values:
        estimate, n = statistics.compute_estimate(statistic), statistics.n[statistic]
        n_undefined = statistics.n_undefined[statistic]
        if n_rated is not None and names[2].startswith("pooled"):
            n_undefined = n_rated - n
        low, high, n_blocks = estimate.low, estimate.high, statistics.count_undefined_blocks(statistic)
        yield AgreementRow(*names, statistic, estimate.value, low, high, n, n_undefined, n_blocks, baseline)
