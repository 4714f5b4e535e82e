"""A row of the agreement table, and the names that its columns hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from metrics_core.agreement.coefficients import FEWEST_SYSTEMS, KENDALL, kendall_p_value
from metrics_core.intervals import JackknifeStatistics, jackknife_p_value

Over = Literal["captions", "within a video", "systems", "pairs", "keypoints"]
"""What an agreement row compares.

- captions: all captions with each other.
- within a video: the captions of one video; the mean over videos.
- systems: the systems' mean values with their mean ratings.
- pairs: two captions of a video, of which people prefer one.
- keypoints: decisions on labelled keypoints.
"""
PEOPLE = "people"
"""The value of column `against` where a number compares with people only."""
ONE_RATER = "one rater"
"""The metric's name in rows of the human ceiling: every rater compared with the mean of the other raters, averaged over
raters. In column `against` it says that a metric is compared with such a rater.

A rater counts by the number of items that they share with others; see `mark_ceiling_raters` for raters who are left
out.
"""
SIMPLE = "simple score"
"""The key of the strongest simple score in `index_comparisons`."""
RIVAL = "kendall_b_rival"
"""Tau-b of the side that column `against` names: a simple score, or one more rater."""
DIFFERENCE = "kendall_b_difference"
"""Tau-b of a metric less that of the side that column `against` names."""
RATERS = "raters"
"""The metric's name in rows of Krippendorff's alpha, whose n and n_undefined count ratings."""
CALIBRATED = "pairwise_accuracy_calibrated"
"""Pairwise accuracy where small differences of the metric count as ties; how small was chosen on the other half of the
videos.
"""


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """A row of table `agreement`: one statistic of a metric, simple score or rater with people, for one aspect. value,
    low, high, p: the number, its interval over videos and its two-sided p-value, None where undefined. n, n_undefined:
    items, videos or systems with a value (from n_videos videos) and without. baseline: whether it is a simple score's.

    aspect: what people rated. over: what is compared. against: PEOPLE, or the name of the simple score or ONE_RATER
    that the metric is compared with. n counts the items of "captions", the videos of "within a video", the systems of
    "systems". n_undefined_resamples: the blocks of videos without which there is no value; they do not count for the
    interval. scorer_id, n_stale: the active scorer of the metric or simple score, and its stale scores or decisions,
    which are left out; who loads scores fills them in. seed: of the resampling.
    """

    metric: str
    aspect: str
    over: Over
    against: str
    statistic: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int
    n_videos: int
    n_undefined: int
    n_undefined_resamples: int
    baseline: bool
    seed: int = 0
    scorer_id: int | None = None
    n_stale: int = 0


def turn_positive(row: AgreementRow) -> AgreementRow:
    """Return a row with a negative value turned positive, and its interval with it: "the shorter, the better" is
    knowledge, too. Another row stays as it is.
    """
    if row.value is None or row.value >= 0:
        return row
    low, high = (None if end is None else -end for end in (row.high, row.low))
    return replace(row, value=-row.value, low=low, high=high)


def index_comparisons(rows: Iterable[AgreementRow]) -> dict[tuple[str, str], AgreementRow]:
    """Return the rows over captions, of one metric and aspect, by (whom the metric is compared with, statistic). The
    first is PEOPLE, ONE_RATER, or SIMPLE for a simple score of any name.
    """
    return {
        (row.against if row.against in (PEOPLE, ONE_RATER) else SIMPLE, row.statistic): row
        for row in rows
        if row.over == "captions"
    }


def build_agreement_rows(
    names: tuple[str, str, Over],
    statistics: JackknifeStatistics,
    n_videos: int,
    *,
    n_rated: int | None = None,
    baseline: bool = False,
) -> Iterator[AgreementRow]:
    """Yield an agreement row against people for every statistic of one comparison, in the order of `statistics.values`.
    names: metric, aspect, and what is compared. n_videos: the number of videos of the items. n_rated: how many items
    people rated; a row over captions then has n_rated - n as n_undefined. baseline: whether the rows belong to a simple
    score.

    Only rows of tau-b have a p-value: by the same t as the interval, and over systems by `kendall_p_value`, where there
    are FEWEST_SYSTEMS or more.
    """
    over = names[2]
    for statistic, value in statistics.values.items():
        estimate, n, p = statistics.compute_estimate(statistic), statistics.n[statistic], None
        if statistic == KENDALL and over != "systems":
            p = jackknife_p_value(value, statistics.jackknife_values[statistic])
        elif statistic == KENDALL and value is not None and n >= FEWEST_SYSTEMS:
            p = kendall_p_value(value, n)
        yield AgreementRow(
            *(*names, PEOPLE, statistic, value, estimate.low, estimate.high, p, n, n_videos),
            n_rated - n if n_rated is not None and over == "captions" else statistics.n_undefined[statistic],
            statistics.count_undefined_blocks(statistic),
            baseline,
        )
