"""The samples that a report shows: the best, the worst, and those that metrics or people disagree about; with frames,
texts, ratings, and explanations of their scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import isfinite
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection, Engine

from assets.agreement.judged import JudgedSamples
from assets.reports.data import MetricSummary
from assets.reports.dataset_facts import DatasetFacts
from assets.reports.thumbnails import Thumbnails, read_thumbnails
from assets.scores.base import Scorer
from assets.scores.explain import explain_score
from assets.sources.base import MissingEvidence
from assets.words.marked_text import Mark, TextPiece, split_sample_text
from assets.words.text import format_compact, format_count, format_name
from db.evidence.facts import load_facts
from db.manifest.datasets import Dataset
from db.reports.facts import load_first_captions
from db.reports.samples import load_ratings_by_sample, load_statuses, load_texts
from db.scores.score_arrays import ScoreArrays
from metrics_core.agreement.raters import compute_mean_ratings
from metrics_core.arrays import FloatArray
from metrics_core.models.errors import ModelUnusable

_SAMPLE_KIND = "caption"
_N_EXTREMES = 2
_MOST_DISPUTED = 6
# Samples that metrics disagree about are looked for among so many captions, drawn at random.
_MOST_DRAWN = 20_000
# The samples that are sorted at first to find extremes of different videos.
_FIRST_EXTREMES = 50
# Without any score, at most this many captions with extreme facts are shown.
_MOST_EXTREME = 12
# A gap of ranks at which half of all samples lie between the two.
_LEAST_GAP = 0.5
_MOST_ROWS = 40
# How many references of a video are shown, unless more of them decided a score.
_N_REFERENCES = 3


@dataclass(frozen=True, eq=False)
class ShownScore:
    """A metric's result for a shown sample: value or status, rank, and the explanation as lines and table rows. rank:
    the share of samples of its kind that are worse, equal ones counted half; None without a value. error: why there is
    no value. reference: key of the one that decided the score. marks: the wrong pieces of the text.
    """

    metric: str
    value: float | None
    status: str
    error: str | None
    rank: float | None
    lines: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    reference: str | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, eq=False)
class ShownReference:
    """A reference of a shown sample's video. decided: the metrics whose score of the sample was computed from this
    reference.
    """

    text: str
    decided: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ShownSample:
    """A sample that a report shows: its texts, frames, scores with explanations, facts and ratings, and why. frames:
    (seconds, JPEG bytes); no_frames: why there are none. references: those that decided a score first, of n_references.
    facts: by name. ratings: by aspect, then by rater. pieces: its text, divided at what a metric calls wrong; ()
    without.
    """

    key: str
    kind: str
    system: str
    video: str
    text: str
    question: str | None
    answer: str | None
    references: tuple[ShownReference, ...]
    n_references: int
    why: tuple[str, ...]
    scores: tuple[ShownScore, ...]
    facts: Mapping[str, Any]
    ratings: Mapping[str, Mapping[str, float]]
    frames: tuple[tuple[float, bytes], ...]
    no_frames: str | None
    pieces: tuple[TextPiece, ...] = ()


def load_shown_samples(
    engine: Engine,
    connection: Connection,
    dataset: Dataset,
    samples: Mapping[str, ScoreArrays],
    metrics: Sequence[MetricSummary],
    scorers: Mapping[str, Scorer],
    judged: JudgedSamples,
    described: DatasetFacts | None,
    tell: Callable[[str], None],
) -> dict[str, list[ShownSample]]:
    """Load samples to look at with their texts, references, scores with explanations, facts, ratings and frames, by the
    reason to show them: the two "best" and "worst" captions by every metric, and samples on which two "metrics", or a
    metric and "people", disagree. Without any score the one reason is "facts": the extremes of facts.

    Every sample appears once, under its first reason, with all reasons why it was chosen. An explanation has at most 40
    table rows, and frames may be fetched from remote stores. samples: all of the dataset, by kind. described: None
    without facts. tell: called with a line of progress for every sample.
    """
    groups = _choose_samples(connection, samples.get(_SAMPLE_KIND), metrics, judged, described)
    why: dict[int, list[str]] = {}
    for chosen in groups.values():
        for sample_id, reason in chosen:
            why.setdefault(sample_id, []).append(reason)
    texts, ratings = load_texts(connection, list(why)), load_ratings_by_sample(connection, list(why))
    # The judged samples were read before this state of the database.
    why = {sample_id: reasons for sample_id, reasons in why.items() if sample_id in texts}
    statuses = load_statuses(connection, list(why))
    ranked = {
        (sample_id, metric.name): value_and_rank
        for metric in metrics
        for kind in metric.ranges
        for ids in [[sample_id for sample_id in why if texts[sample_id]["kind"] == kind]]
        for sample_id, value_and_rank in compute_ranks(samples[kind], metric.name, ids).items()
    }
    known = load_facts(connection, list(why))
    pictures: dict[int, Thumbnails] = {}
    shown: dict[int, ShownSample] = {}
    for number, (sample_id, reasons) in enumerate(why.items(), 1):
        row = texts[sample_id]
        if row["video_id"] not in pictures:
            pictures[row["video_id"]] = read_thumbnails(row)
        views = tuple(
            _load_shown_score(
                *(engine, dataset, metric.name, scorers.get(metric.name), row["key"]),
                statuses.get((sample_id, metric.name), "unscored"),
                *ranked.get((sample_id, metric.name), (None, None)),
            )
            for metric in metrics
        )
        rated = ratings.get(sample_id, {})
        shown[sample_id] = _build_shown_sample(row, reasons, views, known[sample_id], rated, pictures[row["video_id"]])
        tell(f"{number:,} of {format_count(len(why), 'sample')} collected for the report")
    # Every sample is in its first group only, and one that no longer exists in none.
    return {
        name: [shown.pop(sample_id) for sample_id, _ in chosen if sample_id in shown] for name, chosen in groups.items()
    }


def compute_ranks(arrays: ScoreArrays, metric: str, sample_ids: Sequence[int]) -> dict[int, tuple[float, float]]:
    """Return (value, rank) of those of the given samples that have a value by a metric, by sample id. The rank is the
    share of all samples with a lower value, with equal ones counted half. sample_ids: of samples in `arrays`.
    """
    values = arrays.values[metric][np.searchsorted(arrays.sample_ids, sample_ids)]
    ranks = _compute_ranks(values, arrays.values[metric])
    rows = zip(sample_ids, values.tolist(), ranks.tolist(), strict=True)
    return {sample_id: (value, rank) for sample_id, value, rank in rows if isfinite(value)}


def _choose_samples(
    connection: Connection,
    captions: ScoreArrays | None,
    metrics: Sequence[MetricSummary],
    judged: JudgedSamples,
    described: DatasetFacts | None,
) -> dict[str, list[tuple[int, str]]]:
    """Choose samples to show, as pairs (id, why in words) by the name of the group; a sample may be in several groups.
    captions: None for a dataset without captions.
    """
    names = {metric.name: metric.label for metric in metrics if metric.has_values(_SAMPLE_KIND)}
    if captions is None or not names:
        return {"facts": list(_choose_by_facts(connection, described)) if described else []}
    best, worst = (
        [
            (sample_id, f"{word} by {label}")
            for metric, label in names.items()
            for sample_id in list_extreme_samples(captions, metric, _N_EXTREMES, best=is_best)
        ]
        for word, is_best in (("best", True), ("worst", False))
    )
    return {
        "best": best,
        "worst": worst,
        "metrics": _choose_between_metrics(names, captions),
        "people": list(_choose_against_people(names, judged)),
    }


def list_extreme_samples(arrays: ScoreArrays, metric: str, n: int, *, best: bool) -> list[int]:
    """List the ids of the `n` best samples by a metric, the best first, or of the worst, the worst first. There is at
    most one per video, so fewer if fewer videos have a value; among equal values chance decides, always in the same
    way.
    """
    values = -arrays.values[metric] if best else arrays.values[metric]
    known = np.flatnonzero(np.isfinite(values))
    n_first = _FIRST_EXTREMES
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
        if sample_id is not None and (sample_id in chosen or len(chosen) < _MOST_EXTREME):
            chosen.add(sample_id)
            yield sample_id, why


def _choose_between_metrics(names: Mapping[str, str], captions: ScoreArrays) -> list[tuple[int, str]]:
    """Return captions that two metrics rank most differently, at most one for either direction of every pair, of up to
    20,000 captions that are drawn at random, the same every time.
    """
    drawn = np.argsort(captions.chances, kind="stable")[:_MOST_DRAWN]
    sample_ids = captions.sample_ids[drawn].tolist()
    ranks = {metric: _compute_ranks(captions.values[metric][drawn]) for metric in names}
    gaps = []
    for high, low in permutations(ranks, 2):
        gap = ranks[high] - ranks[low]
        place = int(np.nanargmax(gap)) if np.isfinite(gap).any() else None
        if place is not None and gap[place] >= _LEAST_GAP:
            why = f"{names[high]} ranks it high, {names[low]} low"
            gaps.append((float(gap[place]), sample_ids[place], why))
    gaps.sort(key=lambda item: (-item[0], item[1], item[2]))
    return [(sample_id, why) for _, sample_id, why in gaps[:_MOST_DISPUTED]]


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
            if sign * gap[place] >= _LEAST_GAP / 2:
                yield int(judged.sample_ids[place]), f"{label} ranks it {how} than people do"


def _compute_ranks(values: FloatArray, among: FloatArray | None = None) -> FloatArray:
    """Return for every value the share of the defined values among these (or `among` others) that are below it, equal
    ones counted half; NaN where undefined.
    """
    others = values if among is None else among
    defined = np.sort(others[np.isfinite(others)])
    below = np.searchsorted(defined, values, "left") + np.searchsorted(defined, values, "right")
    ranks: FloatArray = np.where(np.isfinite(values), below / max(1, 2 * defined.size), np.nan)
    return ranks


def _load_shown_score(
    engine: Engine,
    dataset: Dataset,
    metric: str,
    scorer: Scorer | None,
    key: str,
    status: str,
    value: float | None,
    rank: float | None,
) -> ShownScore:
    """Return a metric's result for a sample with its explanation, which is left out if the score has changed
    meanwhile.
    """
    try:
        stored_score = explain_score(engine, metric, scorer, dataset, key)
    except (ModelUnusable, MissingEvidence) as error:
        return ShownScore(metric, value, status, None, rank, (f"cannot be explained here: {error}",), ())
    if stored_score is None or (stored_score.value, stored_score.status or "unscored") != (value, status):
        return ShownScore(metric, value, status, None, rank, ("it was scored again while this page was made",), ())
    lines = list(stored_score.explanation.lines)
    if (n_more := len(stored_score.explanation.rows) - _MOST_ROWS) > 0:
        lines.append(f"the first {_MOST_ROWS} rows; reelsieve explain shows {n_more} more")
    rows = tuple(stored_score.explanation.rows[:_MOST_ROWS])
    explanation = stored_score.explanation
    return ShownScore(
        *(metric, value, status, stored_score.error, rank, tuple(lines), rows),
        explanation.reference,
        tuple(explanation.marks),
    )


def _sort_references(all_of_video: Sequence[Sequence[str]], scores: Sequence[ShownScore]) -> tuple[ShownReference, ...]:
    """Return the references that decided a score, then others, in order of their keys; at least three if there are that
    many.
    """
    decided: dict[str, list[str]] = {}
    for score in scores:
        if score.reference is not None:
            decided.setdefault(score.reference, []).append(score.metric)
    first = sorted(all_of_video, key=lambda reference: reference[0] not in decided)
    return tuple(
        ShownReference(text, tuple(decided.get(key, ()))) for key, text in first[: max(_N_REFERENCES, len(decided))]
    )


def _build_shown_sample(
    row: Mapping[str, Any],
    why: Sequence[str],
    scores: tuple[ShownScore, ...],
    facts: Mapping[str, Any],
    ratings: Mapping[str, Mapping[str, float]],
    pictures: Thumbnails,
) -> ShownSample:
    return ShownSample(
        key=row["key"],
        kind=row["kind"],
        system=row["system"],
        video=row["video"],
        text=row["text"],
        question=row["question"],
        answer=row["answer"],
        references=_sort_references(row["references"] or (), scores),
        n_references=len(row["references"] or ()),
        why=tuple(why),
        scores=scores,
        facts=facts,
        ratings=ratings,
        frames=pictures[0],
        no_frames=pictures[1],
        pieces=split_sample_text(row, [score.marks for score in scores]),
    )
