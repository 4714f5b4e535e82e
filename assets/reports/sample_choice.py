"""Chooses the samples that a report shows: the best, the worst, and those that metrics or people disagree about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np
from sqlalchemy.engine import Connection

from assets.agreement.judged import JudgedSamples
from assets.reports.distributions import SAMPLE_KIND, DrawnCaptions
from assets.reports.records import DatasetFacts, MetricSummary
from assets.reports.sample_records import SampleGroup
from assets.words.text import format_compact, format_name
from db.reports.facts import load_first_captions
from db.scores.score_arrays import ScoreArrays
from metrics_core.agreement.raters import compute_mean_ratings
from metrics_core.arrays import FloatArray

N_EXTREMES = 2
MOST_DISPUTED = 6
# The samples that are sorted at first to find extremes of different videos.
FIRST_EXTREMES = 50
# Without any score, at most this many captions with extreme facts are shown.
MOST_EXTREME = 12
# A gap of ranks at which half of all samples lie between the two.
LEAST_GAP = 0.5

ChosenGroup = SampleGroup[tuple[int, str]]
"""Samples chosen for one reason, as pairs (sample id, why in words). A sample may be in several groups."""


def choose_shown_samples(
    connection: Connection,
    captions: ScoreArrays | None,
    metrics: Sequence[MetricSummary],
    drawn: DrawnCaptions,
    judged: JudgedSamples,
    described: DatasetFacts | None,
) -> tuple[ChosenGroup, ...]:
    """Choose samples to show in a report: the two best and worst captions by every metric, and samples on which two
    metrics, or a metric and people, disagree. They come in four groups, as (sample id, reason) pairs; a sample may be
    in several groups. Without any score there is one group, the extremes of facts, which is empty if `described` is
    None. captions: None for a dataset without captions.
    """
    names = {metric.name: metric.label for metric in metrics if metric.has_values(SAMPLE_KIND)}
    if captions is None or not names:
        extreme = tuple(_choose_by_facts(connection, described)) if described else ()
        return (ChosenGroup("Extremes of facts", "facts", extreme),)
    best, worst = (
        tuple(
            (sample_id, f"{word} by {label}")
            for metric, label in names.items()
            for sample_id in list_extreme_samples(captions, metric, N_EXTREMES, best=is_best)
        )
        for word, is_best in (("best", True), ("worst", False))
    )
    return (
        ChosenGroup("Best", "best", best),
        ChosenGroup("Worst", "worst", worst),
        ChosenGroup("Metric against metric", "metrics", _choose_between_metrics(names, drawn)),
        ChosenGroup("Metric against people", "people", tuple(_choose_against_people(names, judged))),
    )


def list_extreme_samples(arrays: ScoreArrays, metric: str, n: int, *, best: bool) -> list[int]:
    """List the ids of the `n` best samples by a metric, the best first, or of the worst, the worst first. There is at
    most one per video, so fewer if fewer videos have a value; among equal values chance decides, always in the same
    way.
    """
    values = -arrays.values[metric] if best else arrays.values[metric]
    known = np.flatnonzero(np.isfinite(values))
    n_first = FIRST_EXTREMES
    while True:
        is_all = n_first >= known.size
        first = known if is_all else known[values[known] <= np.partition(values[known], n_first)[n_first]]
        # In ascending order, equal values by chance, then by id.
        first = first[np.lexsort((arrays.chances[first], values[first]))]
        places = np.sort(np.unique(arrays.video_ids[first], return_index=True)[1])
        if is_all or places.size >= n:
            ids: list[int] = arrays.sample_ids[first[places[:n]]].tolist()
            return ids
        n_first *= 10


def _choose_by_facts(connection: Connection, described: DatasetFacts) -> Iterator[tuple[int, str]]:
    """Yield captions with the lowest and the highest value of every fact, or the first caption of such a video, with
    why.
    """
    ends = [
        (distribution.of, end.row_id, f"{word} {format_name(distribution.fact)}: {format_compact(end.value)}")
        for distribution in described.facts
        for word, end in distribution.list_extremes()
    ]
    first_caption_ids = load_first_captions(connection, [row_id for row_kind, row_id, _ in ends if row_kind == "video"])
    chosen: set[int] = set()
    for row_kind, row_id, why in ends:
        sample_id = first_caption_ids.get(row_id) if row_kind == "video" else row_id
        if sample_id is not None and (sample_id in chosen or len(chosen) < MOST_EXTREME):
            chosen.add(sample_id)
            yield sample_id, why


def _choose_between_metrics(names: Mapping[str, str], drawn: DrawnCaptions) -> tuple[tuple[int, str], ...]:
    """Return the drawn captions that two metrics rank most differently, at most one for either direction of
    every pair.
    """
    ranks = {metric: _compute_ranks(values) for metric, values in drawn.values.items()}
    gaps = []
    for high, low in permutations(ranks, 2):
        gap = ranks[high] - ranks[low]
        place = int(np.nanargmax(gap)) if np.isfinite(gap).any() else None
        if place is not None and gap[place] >= LEAST_GAP:
            why = f"{names[high]} ranks it high, {names[low]} low"
            gaps.append((float(gap[place]), drawn.sample_ids[place], why))
    gaps.sort(key=lambda item: (-item[0], item[1], item[2]))
    return tuple((sample_id, why) for _, sample_id, why in gaps[:MOST_DISPUTED])


def _choose_against_people(names: Mapping[str, str], judged: JudgedSamples) -> Iterator[tuple[int, str]]:
    """Yield for every metric the sample that it ranks farthest above people's ratings, and the one farthest below."""
    people = np.array([_compute_ranks(compute_mean_ratings(ratings)) for ratings in judged.ratings.values()])
    known = np.isfinite(people).any(axis=0) if people.size else np.zeros(judged.sample_ids.size, dtype=np.bool_)
    mean = np.full(known.size, np.nan)
    mean[known] = np.nanmean(people[:, known], axis=0) if known.any() else np.nan
    for metric, label in names.items():
        gap = _compute_ranks(np.where(known, judged.metric_values.get(metric, np.nan), np.nan)) - mean
        for sign, how in ((1, "higher"), (-1, "lower")):
            if not np.isfinite(gap).any():
                continue
            place = int(np.nanargmax(sign * gap))
            if sign * gap[place] >= LEAST_GAP / 2:
                yield int(judged.sample_ids[place]), f"{label} ranks it {how} than people do"


def _compute_ranks(values: FloatArray) -> FloatArray:
    """Return for every value the share of the defined values below it, equal ones counted half; NaN where undefined."""
    defined = np.sort(values[np.isfinite(values)])
    below = np.searchsorted(defined, values, "left") + np.searchsorted(defined, values, "right")
    ranks: FloatArray = np.where(np.isfinite(values), below / max(1, 2 * defined.size), np.nan)
    return ranks
