"""Metrics against people and each other, how their values are distributed, and what thresholds cut off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from assets.agreement.rows import LABELS, SEED, Judged, StoredRow
from assets.reports.answers import aspect_in_words, grouped
from assets.reports.facts import (
    AspectFacts,
    Cut,
    DataFacts,
    LabelCut,
    MetricFacts,
    MetricSpread,
    PairFacts,
    RatingCut,
    Scatter,
    TrustFacts,
)
from assets.reports.text import listed, number
from assets.settings import read_settings
from assets.thresholds.ratings import beside, rating_cuts, sentence
from assets.thresholds.settings import SHARES, RatingSettings
from db.manifest.datasets import Dataset
from db.reports.values import (
    RatingsBeside,
    SystemLeft,
    drawn_values,
    histogram,
    left_by,
    lowest_kept,
    ratings_beside,
    spreads,
)
from db.schema import keypoint_threshold, scorer
from db.scores.thresholds import METHOD_LABELS
from db.selections.freezing import kept
from metrics_core.agreement import coefficient
from metrics_core.agreement.choices import SIDE_BY_SIDE
from metrics_core.agreement.raters import mean_rating
from metrics_core.agreement.same_items import STATISTIC, Coefficient, SameItems, on_same_items
from metrics_core.agreement.table import ONE_RATER
from metrics_core.agreement.verdicts import CLAIMS, system_verdict, verdict
from metrics_core.arrays import FloatArray

KIND = "caption"
MOST_DRAWN = 20_000
BINS = 40
MOST_POINTS = 2000
TENTHS = 10


@dataclass(frozen=True, eq=False)
class Drawn:
    """Captions drawn at random, all where there are few: ids in the order of the draw, and values (n,) by metric."""

    sample_ids: Sequence[int]
    values: Mapping[str, FloatArray]


def draw(connection: Connection, metrics: Sequence[MetricFacts]) -> Drawn:
    """Draw the captions on which metrics are compared with each other; NaN where one has no value."""
    names = [metric.name for metric in metrics if metric.scores_kind(KIND)]
    rows = drawn_values(connection, KIND, names, MOST_DRAWN)
    values = np.array([row for _, row in rows], dtype=np.float64).reshape(len(rows), len(names))
    return Drawn([sample_id for sample_id, _ in rows], dict(zip(names, values.T, strict=True)))


def gather_pairs(drawn: Drawn) -> tuple[PairFacts, ...]:
    """Correlate every two metrics over the captions that both score."""
    found = []
    for (metric, values), (other, others) in combinations(drawn.values.items(), 2):
        both = np.isfinite(values) & np.isfinite(others)
        found.append(PairFacts(metric, other, coefficient(values[both], others[both], "spearman"), int(both.sum())))
    return tuple(found)


def gather_spreads(connection: Connection, metrics: Sequence[MetricFacts]) -> tuple[MetricSpread, ...]:
    """The distribution of every metric, for each kind of samples that it scores."""
    return tuple(_spread(connection, metric, kind) for metric in metrics for kind in sorted(metric.ranges))


def _spread(connection: Connection, metric: MetricFacts, kind: str) -> MetricSpread:
    low, high = metric.ranges[kind]
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = histogram(connection, kind, metric.name, low, high, BINS)
    by_system, by_shard = (tuple(spreads(connection, kind, metric.name, by)) for by in ("system", "shard"))
    return MetricSpread(metric.name, kind, low, high, tuple(counts), by_system, by_shard)


def gather_cuts(connection: Connection, metrics: Sequence[MetricFacts], data: DataFacts) -> tuple[Cut, ...]:
    """What the thresholds of asset `threshold` are now, and what they keep."""
    kinds = sorted({kind for metric in metrics for kind in metric.ranges})
    return tuple(cut for kind in kinds for cut in _cuts(connection, kind, metrics, data))


def _cuts(connection: Connection, kind: str, metrics: Sequence[MetricFacts], data: DataFacts) -> Iterator[Cut]:
    """The cuts of one kind of samples."""
    values = {
        metric.name: lowest_kept(connection, kind, metric.name, [kept(share, n) for share in SHARES], n)
        for metric in metrics
        if (n := metric.n_of(kind))
    }
    left = left_by(connection, kind, values)
    for metric, own in values.items():
        for place, value in enumerate(own):
            ratings = ratings_beside(connection, kind, metric, value) if data.ratings else []
            yield _cut(metric, kind, place, value, left[metric], ratings)


def _cut(
    metric: str, kind: str, place: int, value: float, rows: Sequence[SystemLeft], ratings: Sequence[RatingsBeside]
) -> Cut:
    """The cut that keeps the share at this place of SHARES."""
    return Cut(
        metric=metric,
        kind=kind,
        share=SHARES[place],
        n_kept=sum(left[place] for *_, left in rows),
        n=sum(n for _, n, _ in rows),
        value=value,
        by_system={system: (left[place], n) for system, n, left in rows},
        ratings={aspect: (above, below) for aspect, above, below, _ in ratings},
    )


def gather_rating_cuts(judged: Judged, metrics: Sequence[MetricFacts], trust: TrustFacts) -> tuple[RatingCut, ...]:
    """What the thresholds of asset `rating_threshold` are now. Raises SettingsError for unusable least ratings."""
    labels = {metric.name: metric.label for metric in metrics}
    knows = {
        (each.aspect, name): found.level in CLAIMS for each in trust.aspects for name, found in each.verdicts.items()
    }
    return tuple(
        RatingCut(
            found.metric,
            found.objective,
            found.cut,
            sentence(found, labels[found.metric], knows=known),
            beside(found.cut, knows=known).lstrip(",; "),
        )
        for found in rating_cuts(judged, read_settings(RatingSettings).good_ratings)
        for known in [knows[found.aspect, found.metric]]
    )


def gather_label_cuts(connection: Connection, dataset: Dataset) -> tuple[LabelCut, ...]:
    """The thresholds chosen on labels that are in force on the dataset."""
    of = keypoint_threshold.c
    query = (
        sa.select(scorer.c.metric, of.dimension, of.threshold, of.objective, of.n, of.n_positive)
        .join(scorer, scorer.c.scorer_id == of.scorer_id)
        .where(of.dataset_id == dataset.dataset_id, of.scope == "dataset")
        .where(of.method == METHOD_LABELS, scorer.c.status == "active")
        .order_by(scorer.c.metric, of.dimension)
    )
    return tuple(LabelCut(*row) for row in connection.execute(query))


# Can each metric be trusted here: metrics against people, aspect by aspect.

Beside = Mapping[tuple[str, str], SameItems]
"""By aspect and metric: the metric beside simple scores and one more rater on its own samples."""


def beside_people(judged: Judged) -> dict[tuple[str, str], SameItems]:
    """Compare every metric with people by every aspect, on the samples that it has a value for."""
    videos = [each.video_id for each in judged.samples]
    return {
        (aspect, metric): same
        for aspect in sorted(judged.ratings)
        for metric, same in on_same_items(
            judged.metrics, judged.baselines, judged.ratings[aspect], videos, seed=SEED
        ).items()
    }


def gather_trust(
    judged: Judged, rows: Sequence[StoredRow], metrics: Sequence[MetricFacts], data: DataFacts, beside: Beside
) -> TrustFacts:
    """Judge every metric by every aspect, from the rows of the agreement table and on each metric's own samples.

    beside: with chances that are corrected for all claims of the page.
    """
    labels = {metric.name: metric.label for metric in metrics}
    aspects = tuple(_aspect(judged, aspect, rows, labels, data, beside) for aspect in sorted(judged.ratings))
    unscored = {}
    for metric in labels:
        values = judged.metrics.get(metric, np.full(len(judged.samples), np.nan))
        n_stale = judged.n_stale.get(metric, 0)
        unscored[metric] = {"have a stale score": n_stale, "have no value": int(np.isnan(values).sum()) - n_stale}
    side_by_side: dict[str, tuple[StoredRow, ...]] = {}
    for row in rows:
        if row.grouping == SIDE_BY_SIDE:
            side_by_side[row.aspect] = (*side_by_side.get(row.aspect, ()), row)
    return TrustFacts(aspects, len(judged.samples), unscored, side_by_side)


def _aspect(
    judged: Judged, aspect: str, rows: Sequence[StoredRow], labels: Mapping[str, str], data: DataFacts, beside: Beside
) -> AspectFacts:
    """Judge every metric by one aspect."""
    own = [row for row in rows if row.aspect == aspect]
    pooled = {row.metric: row for row in own if row.grouping == "pooled" and row.statistic == STATISTIC}
    of_systems = {row.metric: row for row in own if row.grouping == "per_system" and row.statistic == STATISTIC}
    same = {metric: each for (of, metric), each in beside.items() if of == aspect}
    people, shown = mean_rating(judged.ratings[aspect]), aspect_in_words(aspect)
    baselines = tuple(_coefficient(row) for row in pooled.values() if row.baseline)
    n_samples = int(np.isfinite(people).sum())
    named = {name: labels.get(name, name) for name in same}
    fewer = [_fewer(named[name], each, n_samples) for name, each in same.items() if 0 < each.found.n < n_samples]
    verdicts = {name: verdict(named[name], shown, each) for name, each in same.items()}
    orders = {
        named[name]: system_verdict(_coefficient(row), same[name].n_videos, knows=verdicts[name].level in CLAIMS)
        for name, row in of_systems.items()
        if name in same
    }
    return AspectFacts(
        aspect=aspect,
        n_samples=n_samples,
        n_raters=judged.ratings[aspect].shape[1],
        synthetic=data.synthetic_ratings,
        missing=tuple(_missing(aspect, people, judged)),
        coefficients={name: _coefficient(pooled[name]) for name in same if name in pooled},
        baselines=baselines,
        strongest=_strongest(baselines),
        ceiling=_coefficient(pooled[ONE_RATER]) if ONE_RATER in pooled else None,
        verdicts=verdicts,
        n_videos={name: each.n_videos for name, each in same.items()},
        fewer=tuple(fewer),
        orders=tuple(f"{listed(names)}: {said}." for said, names in grouped(orders).items()),
        rows=tuple(own),
        scatters=tuple(scatter(name, aspect, judged.metrics[name], people) for name in same),
    )


def _fewer(label: str, same: SameItems, n_samples: int) -> str:
    """Say on which samples a metric was compared that has no value for some."""
    line = f"{label} has a value for {same.found.n:,} of the {n_samples:,} rated samples and is compared on these alone"
    if same.strongest is None:
        return f"{line}."
    return f"{line}; there, the strongest simple score is {same.strongest.name} with {number(same.strongest.value)}."


def _strongest(baselines: Sequence[Coefficient]) -> Coefficient | None:
    """The simple score farthest from 0, turned round where it is negative; None where none has a value."""
    defined = [each for each in baselines if each.value is not None]
    found = max(defined, key=lambda each: abs(each.value or 0.0), default=None)
    if found is None or (found.value or 0.0) >= 0:
        return found
    value, low, high = (None if side is None else -side for side in (found.value, found.high, found.low))
    return Coefficient(f"{found.name}, turned round", value, low, high, found.n)


def _coefficient(row: StoredRow) -> Coefficient:
    return Coefficient(row.metric, row.value, row.low, row.high, row.n)


def _missing(aspect: str, people: FloatArray, judged: Judged) -> Iterable[str]:
    """Say why some numbers of an aspect are missing."""
    rated = people[np.isfinite(people)]
    if rated.size and (rated == rated[0]).all():
        yield f"All {rated.size} samples have the same rating, {rated[0]:g}: nothing can be ordered by it."
    if judged.ratings[aspect].shape[1] == 1:
        who = "The labels count as one rater" if aspect == LABELS else "One rater alone"
        yield f"{who}: there is no second one to tell how far people agree, so there is no human ceiling."
    chosen = np.isfinite(people)
    systems = {each.system for each, is_rated in zip(judged.samples, chosen, strict=True) if is_rated}
    if len(systems) == 1:
        yield "One system alone was rated: nothing can be said about the order of systems."
    videos = {each.video_id for each, is_rated in zip(judged.samples, chosen, strict=True) if is_rated}
    if len(videos) == 1:
        yield "Samples of one video alone were rated: intervals need several videos."


def scatter(metric: str, aspect: str, values: FloatArray, people: FloatArray) -> Scatter:
    """Pair the values (n,) with people's ratings (n,), NaN where undefined; of very many pairs some are drawn.

    The trend is the mean rating of each tenth of all pairs, in order of the metric, at the tenth's mean value. Equal
    values stay together, so there may be fewer than ten.

    >>> scatter("m", "a", np.arange(20.0), np.arange(20.0) * 2).trend[0]
    (0.5, 1.0)
    """
    kept = np.flatnonzero(np.isfinite(values) & np.isfinite(people))
    left, right = values[kept], people[kept]
    order = np.argsort(left, kind="stable")
    trend = []
    if kept.size >= TENTHS:
        first_of_equals = np.searchsorted(left[order], left[order])
        tenth = first_of_equals * TENTHS // kept.size
        trend = [
            (float(left[order][tenth == each].mean()), float(right[order][tenth == each].mean()))
            for each in np.unique(tenth)
        ]
    drawn = kept
    if kept.size > MOST_POINTS:
        drawn = np.sort(np.random.default_rng(0).choice(kept, MOST_POINTS, replace=False))
    return Scatter(metric, aspect, values[drawn].tolist(), people[drawn].tolist(), trend, kept.size)
