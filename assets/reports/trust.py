"""Compares metrics with people, aspect by aspect, from the stored agreement: which metrics can be trusted for a
dataset?
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TypeVar

import numpy as np
from sqlalchemy.engine import Connection

from assets.agreement.judged import COMMON_WORDS, COSINE, SEED, JudgedSamples
from assets.agreement.raters import check_raters, explain_raters
from assets.reports.best_system import explain_system_orders
from assets.reports.records import (
    AspectAgreement,
    DataSummary,
    MetricSummary,
    ReferenceCount,
    TrustSummary,
    format_aspect,
)
from assets.scores.base import Scorer
from assets.words.text import format_number, format_percent
from db.manifest.datasets import Dataset
from db.reports.agreement import count_references, find_newest_score_time
from db.reports.judgements import LABELS_ASPECT
from db.schema.inputs import REFERENCES
from metrics_core.agreement.baseline_comparison import (
    BaselineComparison,
    Coefficient,
    build_baseline_comparisons,
)
from metrics_core.agreement.coefficients import KENDALL, TIED_PAIRS
from metrics_core.agreement.conclusions import explain_agreement, explain_system_order
from metrics_core.agreement.rater_checks import compute_human_ceiling
from metrics_core.agreement.raters import compute_mean_ratings
from metrics_core.agreement.row import CALIBRATED, ONE_RATER, PEOPLE, RATERS, AgreementRow
from metrics_core.arrays import FloatArray

MANY_TIES = 0.2
"""Of a metric that ties a larger share of the pairs, the page also shows a statistic in which ties count."""
T = TypeVar("T")
SameItemsTable = Mapping[tuple[str, str], BaselineComparison]
"""By (aspect, metric): the metric next to simple scores and one more rater, on the samples that it has a value for."""


@dataclass(frozen=True, slots=True)
class MetricClaims:
    """How metrics compare with people, which is what a page makes claims about. rows: of table `agreement`. The other
    fields are by (aspect, metric). same_items: the metric next to simple scores and one more rater. system_orders: how
    well its order of systems matches people's. references: how many references the compared videos have.
    """

    rows: Sequence[AgreementRow]
    same_items: SameItemsTable
    system_orders: Mapping[tuple[str, str], Coefficient]
    references: Mapping[tuple[str, str], ReferenceCount]


def load_claims(
    connection: Connection,
    dataset: Dataset,
    rows: Sequence[AgreementRow],
    judged: JudgedSamples,
    scorers: Mapping[str, Scorer],
) -> MetricClaims:
    """Build from the stored agreement, and from counts of references in the database, how metrics compare with people.
    Stored aspects and metrics that the judged samples no longer have are left out. scorers: by metric, to know which
    metrics read references. P-values are not corrected yet.
    """
    same_items = {
        (aspect, metric): same
        for (aspect, metric), same in sorted(build_baseline_comparisons(rows).items(), key=lambda item: item[0][0])
        # A table that is older than the judgements may have others.
        if aspect in judged.ratings and metric in judged.metric_values
    }
    references = count_compared_references(connection, dataset, judged, scorers)
    return MetricClaims(rows, same_items, compute_system_orders(rows, same_items), references)


def explain_stale_agreement(
    connection: Connection,
    dataset: Dataset,
    rows: Sequence[AgreementRow],
    made_at: datetime | None,
    judged: JudgedSamples,
) -> str | None:
    """Return a sentence where the stored agreement is older than the newest scores, was computed from another number of
    judgements than there are now, or is missing although scores and judgements exist; else None. rows, made_at: as
    `load_agreement` returns them. A changed value of a rating is not noticed: ratings are counted, since they have no
    time.
    """
    remedy = f"reelsieve report --dataset {shlex.quote(dataset.name)} computes it"
    if made_at is None:
        has_any = judged.metric_values and (judged.ratings or judged.choices)
        return f"Agreement with people is not computed yet: {remedy}." if has_any else None
    newest = find_newest_score_time(connection, judged.sample_ids.tolist())
    if (newest is None or newest <= made_at) and _count_stored_judgements(rows) == _count_present_judgements(judged):
        return None
    when = f"{made_at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
    return f"Agreement with people is older than the newest scores or judgements ({when}): {remedy} again."


def _count_stored_judgements(rows: Sequence[AgreementRow]) -> dict[tuple[str, bool], int]:
    """Count the ratings, and the preferences (True), behind the stored agreement, by aspect."""
    return {
        (row.aspect, row.over == "pairs"): row.n + row.n_undefined
        for row in rows
        if row.metric == RATERS or row.over == "pairs"
    }


def _count_present_judgements(judged: JudgedSamples) -> dict[tuple[str, bool], int]:
    """Count the ratings, and the preferences (True), that people have given until now, by aspect."""
    ratings = {(aspect, False): int(np.isfinite(values).sum()) for aspect, values in judged.ratings.items()}
    return ratings | {(aspect, True): values.better.size for aspect, values in judged.choices.items()}


def compute_system_orders(
    rows: Sequence[AgreementRow], same_items: SameItemsTable
) -> dict[tuple[str, str], Coefficient]:
    """Return by (aspect, metric) Kendall's tau-b between the metric's and people's order of systems, with its p-value,
    not corrected. The p-value is None below five systems, and where tau-b is undefined. rows: of table `agreement`.
    Only keys of `same_items` are included.
    """
    return {
        (row.aspect, row.metric): _build_coefficient(row)
        for row in rows
        if (row.over, row.statistic) == ("systems", KENDALL) and (row.aspect, row.metric) in same_items
    }


def count_compared_references(
    connection: Connection, dataset: Dataset, judged: JudgedSamples, scorers: Mapping[str, Scorer]
) -> dict[tuple[str, str], ReferenceCount]:
    """Count the references of the videos behind every comparison with people: fewest, median and most over the compared
    samples, by (aspect, metric or simple score). Those that do not read references are left out. A metric that is not
    among `scorers` (by name), such as an imported one, counts as one that reads them.
    """
    counts = count_references(connection, dataset.dataset_id, set(judged.videos))
    n_references = np.array([counts.get(video_id, 0) for video_id in judged.videos])
    reads = {
        name: values
        for name, values in {**judged.metric_values, **judged.baselines}.items()
        if (name in (COMMON_WORDS, COSINE) if name in judged.baselines else _reads_references(scorers.get(name)))
    }
    return {
        (aspect, name): ReferenceCount(
            int(counts_of_rated.min()), float(np.median(counts_of_rated)), int(counts_of_rated.max())
        )
        for aspect, ratings in judged.ratings.items()
        for name, values in reads.items()
        if (counts_of_rated := n_references[np.isfinite(values) & np.isfinite(compute_mean_ratings(ratings))]).size
    }


def _reads_references(scorer: Scorer | None) -> bool:
    """Return whether a metric may read references; True for imported scores, of which nobody knows."""
    return scorer is None or any(scorer_input.name == REFERENCES.name for scorer_input in scorer.inputs)


def build_trust_summary(
    judged: JudgedSamples,
    metrics: Sequence[MetricSummary],
    data: DataSummary,
    compared: MetricClaims,
    age: str | None,
    careless: Collection[tuple[str, bool, str]],
) -> TrustSummary:
    """Build the comparison of every metric with people, aspect by aspect, with conclusions in sentences. compared: the
    claims, with corrected p-values. data: only says whether ratings are synthetic. age: as `explain_stale_agreement`
    returns it. careless: the raters who answer in a pattern or fail checks, as keys of `explain_patterns`.
    """
    labels = {metric.name: metric.label for metric in metrics}
    aspects = tuple(
        _build_aspect(judged, aspect, labels, data, compared, careless) for aspect in sorted(judged.ratings)
    )
    unscored = {}
    for metric in labels:
        values = judged.metric_values.get(metric, np.full(judged.sample_ids.size, np.nan))
        n_stale = judged.n_stale.get(metric, 0)
        unscored[metric] = {"have a stale score": n_stale, "have no value": int(np.isnan(values).sum()) - n_stale}
    side_by_side: dict[str, tuple[AgreementRow, ...]] = {}
    for row in compared.rows:
        if row.over == "pairs":
            side_by_side[row.aspect] = (*side_by_side.get(row.aspect, ()), row)
    return TrustSummary(aspects, judged.sample_ids.size, unscored, side_by_side, age)


def _build_aspect(
    judged: JudgedSamples,
    aspect: str,
    labels: Mapping[str, str],
    data: DataSummary,
    compared: MetricClaims,
    careless: Collection[tuple[str, bool, str]],
) -> AspectAgreement:
    """Build the comparison of every metric with people by one aspect."""
    rows = [row for row in compared.rows if row.aspect == aspect and row.against == PEOPLE]
    pooled, system_rows = (
        {row.metric: row for row in rows if (row.over, row.statistic) == (over, KENDALL)}
        for over in ("captions", "systems")
    )
    same = _select_aspect(compared.same_items, aspect)
    mean_ratings, shown = compute_mean_ratings(judged.ratings[aspect]), format_aspect(aspect)
    baselines = tuple(_build_coefficient(row) for row in pooled.values() if row.baseline)
    n_samples = int(np.isfinite(mean_ratings).sum())
    named = {name: labels.get(name, name) for name in same}
    fewer = [
        _explain_fewer(named[name], comparison, n_samples)
        for name, comparison in same.items()
        if 0 < comparison.coefficient.n < n_samples
    ]
    orders = _select_aspect(compared.system_orders, aspect)
    order_verdicts = {name: explain_system_order(order, same[name].n_videos) for name, order in orders.items()}
    simple = {
        name: _build_coefficient(row) for name, row in system_rows.items() if row.baseline and row.value is not None
    }
    checks = check_raters(judged, aspect)
    suspected = [
        name
        for name, check in checks.items()
        if check.is_counted and (check.is_far or (aspect, False, name) in careless) and not data.synthetic_ratings
    ]
    kept = judged.ratings[aspect][:, [name not in suspected for name in judged.raters[aspect]]]
    return AspectAgreement(
        aspect=aspect,
        n_samples=n_samples,
        n_ratings=int(np.isfinite(judged.ratings[aspect]).sum()),
        n_raters=judged.ratings[aspect].shape[1],
        synthetic=data.synthetic_ratings,
        missing=tuple(_explain_missing(aspect, mean_ratings, judged)),
        coefficients={name: _build_coefficient(pooled[name]) for name in same if name in pooled},
        baselines=baselines,
        strongest=_find_strongest(baselines),
        ceiling=_build_coefficient(pooled[ONE_RATER]) if ONE_RATER in pooled else None,
        careless=tuple(suspected),
        ceiling_without_careless=compute_human_ceiling(kept, judged.videos, seed=SEED) if suspected else None,
        raters=tuple(explain_raters(checks)),
        ties=tuple(_explain_ties(rows, named)),
        beside_rater=tuple(
            _explain_rater_difference(named[name], comparison)
            for name, comparison in same.items()
            if comparison.above_rater
        ),
        verdicts={name: explain_agreement(named[name], shown, comparison) for name, comparison in same.items()},
        n_videos={name: comparison.n_videos for name, comparison in same.items()},
        rivals={
            name: comparison.strongest_baseline for name, comparison in same.items() if comparison.strongest_baseline
        },
        system_coefficients={**orders, **simple},
        order_verdicts=order_verdicts,
        references=_select_aspect(compared.references, aspect),
        fewer=tuple(fewer),
        orders=tuple(f"{comparison}." for comparison in explain_system_orders(order_verdicts, orders, named)),
        rows=tuple(rows),
    )


def _select_aspect(values: Mapping[tuple[str, str], T], aspect: str) -> dict[str, T]:
    """Return the values of one aspect by metric."""
    return {name: value for (key_aspect, name), value in values.items() if key_aspect == aspect}


def _explain_fewer(label: str, same: BaselineComparison, n_samples: int) -> str:
    """Return a sentence on a metric that has no value for some rated samples: on how many it is compared."""
    line = (
        f"{label} is only compared on the {same.coefficient.n:,} of {n_samples:,} rated samples that it has a value for"
    )
    if same.strongest_baseline is None:
        return f"{line}."
    strongest = same.strongest_baseline
    return f"{line}; there, the strongest simple score is {strongest.name} with {format_number(strongest.value)}."


def _explain_ties(rows: Sequence[AgreementRow], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield how many pairs every metric ties, and how a metric that ties many does when ties count.

    rows: of one aspect. labels: of the metrics, by name.
    """
    tied = {
        row.metric: row.value
        for row in rows
        if (row.over, row.statistic) == ("captions", TIED_PAIRS) and row.metric in labels and row.value is not None
    }
    if tied:
        shares = ", ".join(f"{labels[name]} {format_percent(share)}" for name, share in tied.items())
        yield f"Pairs of captions with equal values, which τ-b cannot order: {shares}."
    calibrated = {row.metric: row for row in rows if (row.over, row.statistic) == ("captions", CALIBRATED)}
    yield from (_explain_many_ties(labels[name], name, calibrated) for name, share in tied.items() if share > MANY_TIES)


def _explain_many_ties(label: str, name: str, calibrated: Mapping[str, AgreementRow]) -> str:
    """Return the pairwise accuracy of a metric that ties many pairs, next to one more rater and simple scores."""
    metric_row = calibrated[name]
    other_rows = [
        row for row in calibrated.values() if row.value is not None and (row.baseline or row.metric == ONE_RATER)
    ]
    if metric_row.value is None:
        return (
            f"{label} ties so many pairs that ties should count, but two halves of the videos have no pairs to compare."
        )
    others = f" ({', '.join(f'{row.metric} {format_percent(row.value)}' for row in other_rows)})" if other_rows else ""
    interval = (
        "" if metric_row.low is None else f", {format_percent(metric_row.low)} to {format_percent(metric_row.high)}"
    )
    return (
        f"{label} ties so many pairs that ties should count: if small differences are ties, it orders or ties "
        f"{format_percent(metric_row.value)}{interval} of the pairs as people do{others}. The largest "
        "difference that counts as a tie was chosen on the other half of the videos."
    )


def _explain_rater_difference(label: str, same: BaselineComparison) -> str:
    """Return a sentence that compares a metric with one more rater, both against all raters but one."""
    metric_coefficient, rater_coefficient, difference = same.against_others, same.ceiling, same.above_rater
    assert metric_coefficient is not None
    assert rater_coefficient is not None
    assert difference is not None
    size = f"{format_number(difference.value)}, {format_number(difference.low)} to {format_number(difference.high)}"
    tau, rater_tau = format_number(metric_coefficient.value), format_number(rater_coefficient.value)
    return (
        f"Compared with the mean of all raters but one, {label} has τ-b {tau}, and the rater who is left out has "
        f"{rater_tau} (difference {size})."
    )


def _find_strongest(baselines: Sequence[Coefficient]) -> Coefficient | None:
    """Return the simple score farthest from 0, its sign turned where it is negative; None where none has a value."""
    defined = [baseline for baseline in baselines if baseline.value is not None]
    strongest = max(defined, key=lambda baseline: abs(baseline.value or 0.0), default=None)
    if strongest is None or (strongest.value or 0.0) >= 0:
        return strongest
    value, low, high = (None if side is None else -side for side in (strongest.value, strongest.high, strongest.low))
    return Coefficient(f"{strongest.name}, turned round", value, low, high, strongest.n)


def _build_coefficient(row: AgreementRow) -> Coefficient:
    return Coefficient(row.metric, row.value, row.low, row.high, row.n, row.p)


def _explain_missing(aspect: str, mean_ratings: FloatArray, judged: JudgedSamples) -> Iterable[str]:
    """Yield sentences on why some numbers of an aspect are missing."""
    rated = mean_ratings[np.isfinite(mean_ratings)]
    if rated.size and (rated == rated[0]).all():
        yield f"No order can be compared, since all {rated.size} samples have the same rating, {rated[0]:g}."
    if judged.ratings[aspect].shape[1] == 1:
        who = "The labels count as one rater" if aspect == LABELS_ASPECT else "Only one person rated"
        yield f"There is no human ceiling, which needs a second rater. {who}."
    chosen = np.isfinite(mean_ratings)
    systems = {system for system, is_rated in zip(judged.systems, chosen, strict=True) if is_rated}
    if len(systems) == 1:
        yield "Systems cannot be ordered, since only one system was rated."
    videos = {video for video, is_rated in zip(judged.videos, chosen, strict=True) if is_rated}
    if len(videos) == 1:
        yield "There are no intervals, which need several videos: only samples of one video were rated."
